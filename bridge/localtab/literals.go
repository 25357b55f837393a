package localtab

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// longLiteral is the length from which a string of a frame is lifted out, in bytes.
const longLiteral = 32 << 10

// literals are long strings that were lifted out of a frame, so that a source of megabytes is read once, and not once by each of the
// decoders between the socket and a tool. In their place the frame has a short one, which nobody can guess.
type literals struct {
	mark  string // of the frame; "" if it has none
	texts []string
}

// text is s, or what was lifted where s stands now.
func (l literals) text(s string) string {
	if number, ok := strings.CutPrefix(s, l.mark); ok && l.mark != "" {
		if i, err := strconv.Atoi(number); err == nil && i < len(l.texts) {
			return l.texts[i]
		}
	}
	return s
}

// liftLiterals returns the frame without its long strings, which it decodes. Whether the rest is JSON, and a string that is none, are
// for who decodes the short frame.
func liftLiterals(frame []byte) ([]byte, literals) {
	var l literals
	if len(frame) < longLiteral {
		return frame, l
	}
	var short []byte
	from := 0 // what is not in short yet
	for at := 0; ; {
		i := bytes.IndexByte(frame[at:], '"')
		if i < 0 {
			break
		}
		open := at + i
		end := literalEnd(frame, open)
		if end < 0 {
			break
		}
		at = end
		if end-open < longLiteral {
			continue
		}
		text, ok := unquote(frame[open:end])
		if !ok {
			continue
		}
		if l.mark == "" {
			l.mark = rand.Text() + "/"
		}
		short = append(short, frame[from:open]...)
		short = strconv.AppendQuote(short, l.mark+strconv.Itoa(len(l.texts)))
		l.texts = append(l.texts, text)
		from = end
	}
	if l.mark == "" {
		return frame, l
	}
	return append(short, frame[from:]...), l
}

// literalEnd is the index behind the string that begins at open, or -1.
func literalEnd(frame []byte, open int) int {
	for at := open + 1; ; {
		i := bytes.IndexByte(frame[at:], '"')
		if i < 0 {
			return -1
		}
		at += i + 1
		escapes := at - 1
		for frame[escapes-1] == '\\' { // the quote at open ends this
			escapes--
		}
		if (at-1-escapes)%2 == 0 {
			return at
		}
	}
}

// unquote decodes a JSON string. What is rare is left to encoding/json.
func unquote(literal []byte) (string, bool) {
	body := literal[1 : len(literal)-1]
	rare := !utf8.Valid(body) || bytes.Contains(body, []byte(`\u`)) || slices.ContainsFunc(body, func(c byte) bool { return c < ' ' })
	if rare {
		var s string
		err := json.Unmarshal(literal, &s)
		return s, err == nil
	}
	var b strings.Builder
	b.Grow(len(body))
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			b.Write(body)
			return b.String(), true
		}
		escape := strings.IndexByte(`"\/bfnrt`, body[i+1]) // there is one: the last quote is not escaped
		if escape < 0 {
			return "", false
		}
		b.Write(body[:i])
		b.WriteByte("\"\\/\b\f\n\r\t"[escape])
		body = body[i+2:]
	}
}
