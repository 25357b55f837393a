package notebook

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Unit is what a client measures text in.
type Unit int

const (
	Characters Unit = iota // as JavaScript counts: those beyond U+FFFF are two
	Bytes                  // of UTF-8
)

// size is what a text costs as it is.
func (u Unit) size(text []byte) (n int) {
	for len(text) > 0 {
		r, length := utf8.DecodeRune(text)
		n += u.of(r)
		text = text[length:]
	}
	return n
}

// cost is what s, which is valid UTF-8, costs inside a JSON string.
func (u Unit) cost(s string) (n int) {
	for _, r := range s {
		n += u.inJSON(r)
	}
	return n
}

func (u Unit) of(r rune) int {
	if u == Bytes {
		return utf8.RuneLen(r)
	}
	return utf16.RuneLen(r)
}

// inJSON counts the escapes of encoding/json without HTML escaping.
func (u Unit) inJSON(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < 0x20, r == '\u2028', r == '\u2029':
		return 6
	}
	return u.of(r)
}

// within is how many bytes of s, in whole runes, cost at most room.
func (u Unit) within(s string, room int) int {
	for i, r := range s {
		if room -= u.inJSON(r); room < 0 {
			return i
		}
	}
	return len(s)
}

// withinTail is where the tail of s begins that costs at most room.
func (u Unit) withinTail(s string, room int) int {
	i := len(s)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if room -= u.inJSON(r); room < 0 {
			break
		}
		i -= size
	}
	return i
}

// clip is s on one line that costs at most n; "…" stands for what is missing.
func (u Unit) clip(s string, n int) string {
	const more = "…"
	s = oneLine(s)
	if u.cost(s) <= n {
		return s
	}
	return s[:u.within(s, n-u.cost(more))] + more
}

// Tail is the end of s that costs at most half of the budget, from the start
// of a line where lines are short.
func (b Budget) Tail(s string) string { return s[lineStart(s, b.withinTail(s, b.Most/2)):] }
