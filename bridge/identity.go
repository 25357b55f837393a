package bridge

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"time"
)

// Identity is what a tab must know to find and enter the bridge. The token is
// in the tab's link and nowhere else.
type Identity struct {
	Token   string    // never empty in a running bridge
	Created time.Time // when the token was made
	Port    int       // 0 = any free port
}

// NewIdentity returns an identity with a fresh token of 128 random bits or
// more, for the given port.
func NewIdentity(port int) Identity {
	return Identity{Token: rand.Text(), Created: time.Now(), Port: port}
}

// holds reports in constant time whether token is this identity's. An empty
// token never is.
func (i Identity) holds(token string) bool {
	if i.Token == "" || token == "" {
		return false
	}
	want, got := sha256.Sum256([]byte(i.Token)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
