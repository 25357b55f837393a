package notebook

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"colab-mcp/bridge"
)

// object is a JSON object whose members are still as they came. Decoding into
// it, and not into a struct, tells an absent key from an empty one and matches
// names exactly (encoding/json folds case for structs).
type object map[string]json.RawMessage

func decodeObject(raw json.RawMessage) (object, bool) {
	o, err := bridge.Fields(raw)
	return o, err == nil
}

func decodeList(raw json.RawMessage) ([]json.RawMessage, bool) {
	l, err := bridge.Items(raw)
	return l, err == nil
}

// text reads nbformat's multiline string: a string, or a list of strings to be
// joined. Anything else is shown as its JSON rather than lost; null and an
// absent value are "".
func text(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if s, ok := unquote(raw); ok {
		return s
	}
	if parts, ok := textList(raw); ok {
		return strings.Join(parts, "") // one part is not copied
	}
	return compact(raw)
}

// textList reads a list of strings; one element of another kind refuses it.
func textList(raw json.RawMessage) ([]string, bool) {
	items, ok := decodeList(raw)
	if !ok {
		return nil, false
	}
	out := make([]string, len(items))
	for i, item := range items {
		if out[i], ok = unquote(item); !ok {
			return nil, false
		}
	}
	return out, true
}

// unquote reads a JSON string that was cut out of valid JSON. One of megabytes
// has few escapes, and the runs between them are copied at once.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	body := raw[1 : len(raw)-1]
	if !utf8.Valid(body) {
		var s string
		return s, json.Unmarshal(raw, &s) == nil
	}
	var b strings.Builder
	b.Grow(len(body))
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			b.Write(body)
			return b.String(), true
		}
		b.Write(body[:i])
		n := escapeLen(body[i:])
		if i+n > len(body) {
			return "", false
		}
		if plain := strings.IndexByte(`"\/bfnrt`, body[i+1]); plain >= 0 {
			b.WriteByte("\"\\/\b\f\n\r\t"[plain])
		} else {
			var s string
			if json.Unmarshal(slices.Concat([]byte{'"'}, body[i:i+n], []byte{'"'}), &s) != nil {
				return "", false
			}
			b.WriteString(s)
		}
		body = body[i+n:]
	}
}

// quoted is s as a JSON string.
func quoted(s string) string { return string(appendQuoted(nil, s)) }

// appendQuoted appends s as a JSON string. A chunk of a file has megabytes of
// nothing to escape: eight bytes are looked at at once.
func appendQuoted(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	dst = append(slices.Grow(dst, len(s)+64), '"')
	for {
		n := plainLen(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		switch c := s[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		}
		s = s[n+1:]
	}
}

// plainLen is the length of what s begins with that stands for itself in a
// JSON string.
func plainLen(s string) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(s); n += 8 {
		w := binary.LittleEndian.Uint64([]byte(s[n : n+8]))
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// A byte that is too low, or became zero, has its high bit set by the
		// subtraction; the lowest such byte is a true one.
		if stop := ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs; stop != 0 {
			return n + bits.TrailingZeros64(stop)/8
		}
	}
	for n < len(s) && s[n] >= 0x20 && s[n] != '"' && s[n] != '\\' {
		n++
	}
	return n
}

// escapeLen is the length of the escape that s begins with; both halves of a
// surrogate pair are one (RFC 8259, 7).
func escapeLen(s []byte) int {
	switch {
	case len(s) < 2 || s[1] != 'u':
		return 2
	case len(s) >= 12 && s[2]|0x20 == 'd' && strings.IndexByte("89abAB", s[3]) >= 0 &&
		s[6] == '\\' && s[7] == 'u' && s[8]|0x20 == 'd' && strings.IndexByte("cdefCDEF", s[9]) >= 0:
		return 12
	}
	return 6
}

// compact is raw without insignificant space, with valid UTF-8 only.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// count reads an execution count; null, absent and anything but a plain
// integer is nil.
func count(raw json.RawMessage) *int {
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil
	}
	return &n
}
