package notebook

import "strings"

// parser takes escape sequences out of the text and applies those that move or
// erase. Its states are those of ECMA-48: between the pieces of a sequence it
// may wait for ever, a sequence that never ends is dropped.
type parser struct {
	state  state
	params []byte // of a CSI sequence
}

type state uint8

const (
	ground    state = iota
	escape          // after ESC
	charset         // after ESC and an intermediate byte: one more to come
	csi             // control sequence: parameters, then a letter
	str             // OSC, DCS, SOS, PM, APC: up to BEL or ST
	strEscape       // ESC within str, perhaps ST
)

const longestParams = 64 // bytes; no sequence that moves or erases needs more

func (p *parser) feed(t *Terminal, r rune) {
	switch p.state {
	case ground:
		if !isControl(r) && r != '\n' {
			t.put(r)
			return
		}
		p.control(t, r)
	case escape:
		p.afterEscape(t, r)
	case charset:
		p.state = ground
		if r < 0x20 {
			p.control(t, r)
		}
	case csi:
		p.inCSI(t, r)
	case str:
		switch r {
		case 0x07, 0x18, 0x1a, 0x9c:
			p.state = ground
		case 0x1b:
			p.state = strEscape
		case '\n': // no string has lines: the end of this one was lost
			p.state = ground
			p.control(t, r)
		}
	case strEscape:
		p.state = ground
		if r != '\\' {
			p.afterEscape(t, r)
		}
	}
}

// control applies a C0 or C1 control character.
func (p *parser) control(t *Terminal, r rune) {
	switch r {
	case '\n', '\v', '\f', 0x85:
		t.newline()
	case '\r':
		t.col = 0
	case '\b':
		t.col = max(t.col-1, 0)
	case '\t': // within a sequence
		t.put(r)
	case 0x1b:
		p.state = escape
	case 0x18, 0x1a:
		p.state = ground
	case 0x9b:
		p.state, p.params = csi, p.params[:0]
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		p.state = str
	}
}

func (p *parser) afterEscape(t *Terminal, r rune) {
	p.state = ground
	switch {
	case r == '[':
		p.state, p.params = csi, p.params[:0]
	case strings.ContainsRune("]PX^_", r):
		p.state = str
	case 0x20 <= r && r <= 0x2f:
		p.state = charset
	case r == '7':
		t.saved.row, t.saved.col = t.row, t.col
	case r == '8':
		t.moveTo(t.saved.row, t.saved.col)
	case r == 'D', r == 'E':
		t.newline()
	case r == 'M':
		t.moveTo(t.row-1, t.col)
	case r == 'c':
		t.eraseScreen(2)
		t.moveTo(0, 0)
	case r < 0x20:
		p.control(t, r)
	case r >= 0x7f: // no sequence: the ESC stood alone
		p.feed(t, r)
	}
}

func (p *parser) inCSI(t *Terminal, r rune) {
	switch {
	case 0x20 <= r && r <= 0x3f:
		if len(p.params) < longestParams {
			p.params = append(p.params, byte(r))
		}
	case 0x40 <= r && r <= 0x7e:
		p.state = ground
		p.apply(t, r)
	case r < 0x20:
		p.control(t, r) // applied, and the sequence goes on, as xterm does
	default:
		p.state = ground
		p.feed(t, r)
	}
}

// apply performs a control sequence. Private ones ("?25l") and those that only
// look ("31m") change nothing.
func (p *parser) apply(t *Terminal, final rune) {
	if len(p.params) > 0 && p.params[0] >= '<' {
		return
	}
	first, second := numbers(p.params)
	n := max(first, 1)
	switch final {
	case 'A':
		t.moveTo(t.row-n, t.col)
	case 'B', 'e':
		t.moveTo(t.row+n, t.col)
	case 'C', 'a':
		t.moveTo(t.row, t.col+n)
	case 'D':
		t.moveTo(t.row, t.col-n)
	case 'E':
		t.moveTo(t.row+n, 0)
	case 'F':
		t.moveTo(t.row-n, 0)
	case 'G', '`':
		t.moveTo(t.row, n-1)
	case 'd':
		t.moveTo(n-1, t.col)
	case 'H', 'f':
		t.moveTo(n-1, max(second, 1)-1)
	case 'J':
		t.eraseScreen(first)
	case 'K':
		t.eraseLine(first)
	case 'X':
		t.blank(n)
	case 's':
		t.saved.row, t.saved.col = t.row, t.col
	case 'u':
		t.moveTo(t.saved.row, t.saved.col)
	}
}

// numbers reads the first two parameters; absent ones are 0, huge ones stop
// at a million.
func numbers(params []byte) (first, second int) {
	at := &first
	for _, c := range params {
		switch {
		case c == ';' && at == &first:
			at = &second
		case c == ';':
			return first, second
		case '0' <= c && c <= '9':
			*at = min(*at*10+int(c-'0'), 1_000_000)
		}
	}
	return first, second
}
