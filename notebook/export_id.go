package notebook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
)

// legalID is nbformat 4.5's rule for the id of a cell.
var legalID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// ids gives every cell of a notebook an id of its own: the one it has, if it is
// legal and the first to have it, else one made of what it had and its source,
// so that it is the same at the next export.
type ids map[string]bool

func (s *ids) assign(c Cell) string {
	if *s == nil {
		*s = ids{}
	}
	id := c.ID
	if !legalID.MatchString(id) {
		id = madeID(c, 0)
	}
	for n := 1; (*s)[id]; n++ {
		id = madeID(c, n)
	}
	(*s)[id] = true
	return id
}

// madeID is the n-th choice for a cell, as long as the tab's own ids.
func madeID(c Cell, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %q", n, c.ID, c.Source))
	return hex.EncodeToString(sum[:6])
}
