package localtab

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Payloads are tens of MB of text that travel twice, so they are built by appending to one buffer.

const hex = "0123456789abcdef"

// appendString appends s as a JSON string (RFC 8259), with nothing escaped that need not be. Invalid
// UTF-8 becomes U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			// At most four bytes: decode without copying the rest.
			if r, n := decodeRune(s[i:min(i+utf8.UTFMax, len(s))]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(append(dst, s[from:i]...), "\ufffd"...)
		} else {
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

func decodeRune[T string | []byte](s T) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s)])
}

// plain tells the ASCII bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendLines appends s as nbformat writes multi-line strings: a list of lines that keep their ends.
func appendLines[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '[')
	from := 0
	for i := range len(s) {
		if s[i] == '\n' {
			dst = append(appendString(dst, s[from:i+1]), ',')
			from = i + 1
		}
	}
	switch {
	case from < len(s):
		dst = appendString(dst, s[from:])
	case from > 0:
		dst = dst[:len(dst)-1] // the last comma
	}
	return append(dst, ']')
}

// joinedLines reads what appendLines or another writer of notebooks made: a string or a list of them.
func joinedLines(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	if raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var lines []string
	err := json.Unmarshal(raw, &lines)
	return strings.Join(lines, ""), err
}
