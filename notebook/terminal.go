package notebook

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Bounds of the screen. Rows that leave it at the top are settled: no sequence
// reaches them any more, as on a terminal of that height.
const (
	screenRows   = 200
	screenColumn = 256     // as far right as a cursor sequence goes beyond the text
	longestRow   = 1 << 12 // runes; a longer row is settled from the left
)

// Terminal is text as it would stand on a terminal in the end: carriage
// returns, backspaces, cursor movements and erasures are applied, colours and
// every other sequence are dropped (ECMA-48, as xterm reads it). A progress
// bar that redraws itself a thousand times is one line.
//
// The zero value is ready. Text may come in pieces, cut anywhere, and may be
// read with String in between. Lines do not wrap, a tab stays a tab, and every
// rune is one column wide: what redraws itself uses the same runes each time.
// Beyond the text itself the memory is bounded. Not safe for concurrent use.
type Terminal struct {
	settled  []byte
	rows     []row // the screen, from the top; grows as it is written to
	row, col int   // the cursor; may be beyond what rows hold
	saved    struct{ row, col int }
	spare    [][]rune // cells of settled rows, to be used again

	parser  parser
	partial []byte // a rune cut by the end of a Write
}

type row struct {
	cells   []rune
	redrawn bool // written over or erased: its trailing blanks are nothing
}

// Write never fails.
func (t *Terminal) Write(p []byte) (int, error) {
	n := len(p)
	if len(t.partial) > 0 {
		p = append(t.partial, p...)
		t.partial = nil
	}
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		if r == utf8.RuneError && size == 1 && !utf8.FullRune(p) {
			t.partial = bytes.Clone(p)
			break
		}
		p = p[size:]
		t.parser.feed(t, r)
	}
	return n, nil
}

// WriteString is Write for a string.
func (t *Terminal) WriteString(s string) (int, error) {
	for len(s) > 0 { // in pieces, so that a long text is not copied whole
		n := min(len(s), 1<<16)
		t.Write([]byte(s[:n]))
		s = s[n:]
	}
	return len(s), nil
}

// String is the text as it stands now; always valid UTF-8.
func (t *Terminal) String() string {
	var b strings.Builder
	b.Write(t.settled)
	for i := range t.rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, r := range t.rows[i].text() {
			b.WriteRune(r)
		}
	}
	if len(t.partial) > 0 {
		b.WriteRune(utf8.RuneError)
	}
	return b.String()
}

// plain is s as a terminal shows it.
func plain(s string) string {
	if strings.IndexFunc(s, isControl) < 0 && utf8.ValidString(s) {
		return s
	}
	var t Terminal
	t.WriteString(s)
	return t.String()
}

// isControl reports the runes that a terminal does not simply print. Newline
// and tab are text to us as well.
func isControl(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0
}

func (r *row) text() []rune {
	cells := r.cells
	if r.redrawn {
		for len(cells) > 0 && cells[len(cells)-1] == ' ' {
			cells = cells[:len(cells)-1]
		}
	}
	return cells
}
