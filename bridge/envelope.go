package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// envelope is one JSON-RPC message, cut into its members but not decoded: each
// is the bytes of a JSON value as the tab sent it, nil when absent.
type envelope struct {
	id, method, params, result, err []byte
}

var errNotUTF8 = errors.New("the frame is not valid UTF-8")

// maxDepth is what encoding/json allows; deeper values would break the agent.
const maxDepth = 10000

// scan cuts frame into an envelope and checks that it is one valid JSON object
// (RFC 8259), so that any member can be spliced into another message. Line
// breaks between tokens become spaces, in place: the agent's pipe is framed by
// lines. After an error the envelope holds what was found up to it.
func scan(frame []byte) (envelope, error) {
	var env envelope
	if !utf8.Valid(frame) {
		return env, errNotUTF8
	}
	s := scanner{b: frame}
	s.space()
	if !s.take('{') {
		return env, s.fail("expected a JSON object")
	}
	err := s.members('}', 1, func(key []byte, from int) error {
		if err := s.value(1); err != nil {
			return err
		}
		v := s.b[from:s.i]
		switch string(key) {
		case `"id"`:
			env.id = v
		case `"method"`:
			env.method = v
		case `"params"`:
			env.params = v
		case `"result"`:
			env.result = v
		case `"error"`:
			env.err = v
		}
		return nil
	})
	if err != nil {
		return env, err
	}
	if s.space(); s.i != len(s.b) {
		return env, s.fail("expected the end of the frame")
	}
	return env, nil
}

type scanner struct {
	b []byte
	i int
}

func (s *scanner) fail(want string) error {
	return fmt.Errorf("invalid JSON at byte %d: %s", s.i, want)
}

func (s *scanner) space() {
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\n', '\r':
			s.b[s.i] = ' '
		case ' ', '\t':
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// members reads an object's members after its opening brace. each is called
// with the raw key, before the value, which it must consume.
func (s *scanner) members(end byte, depth int, each func(key []byte, from int) error) error {
	if s.space(); s.take(end) {
		return nil
	}
	for {
		s.space()
		from := s.i
		if err := s.str(); err != nil {
			return err
		}
		key := s.b[from:s.i]
		if s.space(); !s.take(':') {
			return s.fail("expected a colon")
		}
		s.space()
		if err := each(key, s.i); err != nil {
			return err
		}
		if done, err := s.next(end); done || err != nil {
			return err
		}
	}
}

// next reads what follows an element: the end, or a comma.
func (s *scanner) next(end byte) (done bool, err error) {
	s.space()
	if s.take(end) {
		return true, nil
	}
	if !s.take(',') {
		return false, s.fail("expected a comma or the end of the value")
	}
	return false, nil
}

func (s *scanner) value(depth int) error {
	if s.i >= len(s.b) {
		return s.fail("expected a value")
	}
	c := s.b[s.i]
	if (c == '{' || c == '[') && depth >= maxDepth {
		return s.fail("nested too deep")
	}
	switch c {
	case '"':
		return s.str()
	case '{':
		s.i++
		return s.members('}', depth, func([]byte, int) error { return s.value(depth + 1) })
	case '[':
		s.i++
		if s.space(); s.take(']') {
			return nil
		}
		for {
			s.space()
			if err := s.value(depth + 1); err != nil {
				return err
			}
			if done, err := s.next(']'); done || err != nil {
				return err
			}
		}
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

func (s *scanner) word(w string) error {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return s.fail("expected " + w)
	}
	s.i += len(w)
	return nil
}

func (s *scanner) number() error {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return s.fail("expected a value")
	}
	if s.take('.') && !s.digits() {
		return s.fail("expected a digit")
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return s.fail("expected a digit")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > from
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str skips a string, eight bytes at a time: outputs of tens of megabytes are
// one string, and this loop is most of the relay's own work.
func (s *scanner) str() error {
	if !s.take('"') {
		return s.fail("expected a string")
	}
	for {
		for s.i+8 <= len(s.b) {
			w := binary.LittleEndian.Uint64(s.b[s.i:])
			quote, slash := w^(ones*'"'), w^(ones*'\\')
			stop := ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
			if stop != 0 {
				s.i += bits.TrailingZeros64(stop) / 8
				break
			}
			s.i += 8
		}
		if s.i >= len(s.b) {
			return s.fail("unterminated string")
		}
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return s.fail("control character in a string")
		default:
			s.i++
		}
	}
}

func (s *scanner) escape() error {
	rest := s.b[s.i+1:]
	if len(rest) == 0 {
		return s.fail("unterminated string")
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return nil
	case 'u':
		if len(rest) >= 5 && hex(rest[1]) && hex(rest[2]) && hex(rest[3]) && hex(rest[4]) {
			s.i += 6
			return nil
		}
	}
	return s.fail("invalid escape")
}

func hex(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'f'
}
