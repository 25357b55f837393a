package notebook

import (
	"strings"
	"unicode/utf8"
)

// cutMiddle is the head and the tail of s with a line between them that says
// how many bytes are omitted, in at most room runes of JSON; and that number.
// head is the head's part of the room in fifths. Cuts fall between lines where
// lines are short, else between runes. Without room for the line it is "". Where
// s has a gap, the cut is around it.
func cutMiddle(s string, gap Ends, room, head int, marker func(omitted int) string) (string, int) {
	room -= jsonCost(marker(len(s)+gap.Gap)) + 2*len(`\n`)
	if room < 0 {
		return "", len(s) + gap.Gap
	}
	first, rest := s, s
	if gap.Gap > 0 {
		first = s[:gap.At]
	}
	end := lineEnd(first, within(first, room*head/5))
	if rest = s[end:]; gap.Gap > 0 {
		rest = s[gap.At:]
	}
	start := lineStart(rest, withinTail(rest, room-jsonCost(s[:end])))
	tail := rest[start:]
	omitted := len(s) + gap.Gap - end - len(tail)

	var b strings.Builder
	b.WriteString(s[:end])
	if end > 0 && s[end-1] != '\n' {
		b.WriteByte('\n')
	}
	b.WriteString(marker(omitted))
	if tail != "" {
		b.WriteByte('\n')
	}
	b.WriteString(tail)
	return b.String(), omitted
}

// lineEnd moves the end of a head back to the end of a line, unless that
// costs more than a third of it.
func lineEnd(s string, end int) int {
	if i := strings.LastIndexByte(s[:end], '\n') + 1; i >= end*2/3 {
		return i
	}
	return end
}

// lineStart moves the start of a tail on to the start of a line, likewise.
func lineStart(s string, start int) int {
	if start == 0 || s[start-1] == '\n' {
		return start
	}
	if i := strings.IndexByte(s[start:], '\n') + 1; i > 0 && i <= (len(s)-start)/3 {
		return start + i
	}
	return start
}

// within is how many bytes of s, in whole runes, cost at most room.
func within(s string, room int) int {
	for i, r := range s {
		if room -= runeCost(r); room < 0 {
			return i
		}
	}
	return len(s)
}

// withinTail is where the tail of s begins that costs at most room.
func withinTail(s string, room int) int {
	i := len(s)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if room -= runeCost(r); room < 0 {
			break
		}
		i -= size
	}
	return i
}

// Tail is the end of s that has at most room runes inside a JSON string, from
// the start of a line where lines are short.
func Tail(s string, room int) string { return s[lineStart(s, withinTail(s, room)):] }

// jsonCost is how many runes s, which is valid UTF-8, has inside a JSON string.
func jsonCost(s string) (n int) {
	for _, r := range s {
		n += runeCost(r)
	}
	return n
}

// runeCost counts the escapes of encoding/json without HTML escaping.
func runeCost(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
		return 2
	case r < 0x20, r == '\u2028', r == '\u2029':
		return 6
	}
	return 1
}
