package notebook

import "strings"

// cutMiddle is the head and the tail of s with a line between them that says
// how many bytes are omitted, at a cost of at most room in JSON; and that number.
// head is the head's part of the room in fifths. Cuts fall between lines where
// lines are short, else between runes. Without room for the line it is "". Where
// s has a gap, the cut is around it.
func (u Unit) cutMiddle(s string, gap Ends, room, head int, marker func(omitted int) string) (string, int) {
	room -= u.cost(marker(len(s)+gap.Gap)) + 2*len(`\n`)
	if room < 0 {
		return "", len(s) + gap.Gap
	}
	first, rest := s, s
	if gap.Gap > 0 {
		first = s[:gap.At]
	}
	end := lineEnd(first, u.within(first, room*head/5))
	if rest = s[end:]; gap.Gap > 0 {
		rest = s[gap.At:]
	}
	start := lineStart(rest, u.withinTail(rest, room-u.cost(s[:end])))
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
