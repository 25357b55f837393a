package notebook

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"colab-mcp/bridge"
)

// Query is what to read of a kept output. Offsets and limits count bytes and
// move to the next rune if they fall inside one.
type Query struct {
	OutputRef string
	Stream    string // "" is the first there is
	Offset    int    // where to begin
	Limit     int    // at most so many bytes; 0 is as many as fit
	Tail      int    // the last so many lines instead, if positive
	Grep      string // only lines that match (RE2), each behind its number
}

// Page is one answer of read_output.
type Page struct {
	OutputRef  string `json:"output_ref"`
	Stream     string `json:"stream"`
	Offset     int    `json:"offset"` // of the first byte read
	Bytes      int    `json:"bytes"`  // of the stream that were read
	Total      int    `json:"total"`  // bytes of the stream
	Text       string `json:"text"`
	NextOffset *int   `json:"next_offset,omitempty"` // nil at the end
	Matches    *int   `json:"matches,omitempty"`     // lines in text, with Grep
}

// Read is a page whose JSON is within the budget. It fails with a
// *StreamError for a stream that is not there and with ErrQuery for a query
// that makes no sense.
func (k Kept) Read(q Query, budget Budget) (Page, error) {
	name, text, err := k.stream(q.Stream)
	if err != nil {
		return Page{}, err
	}
	if q.Offset < 0 || q.Limit < 0 || q.Tail < 0 {
		return Page{}, fmt.Errorf("%w: offset, limit and tail are 0 or more", ErrQuery)
	}
	if q.Tail > 0 && q.Offset > 0 {
		return Page{}, fmt.Errorf("%w: offset and tail exclude each other", ErrQuery)
	}
	p := Page{OutputRef: q.OutputRef, Stream: name, Total: len(text)}
	room := p.room(budget)
	p.Offset = runeStart(text, min(q.Offset, len(text)))
	if q.Tail > 0 && q.Grep == "" {
		p.Offset = lastLines(text, q.Tail)
		if q.Limit > 0 {
			p.Offset = max(p.Offset, runeStart(text, len(text)-q.Limit))
		}
		p.Offset = lineStart(text, p.Offset+budget.withinTail(text[p.Offset:], room))
	}
	end := len(text)
	if q.Limit > 0 && q.Limit < end-p.Offset {
		end = runeStart(text, p.Offset+q.Limit)
	}
	if q.Grep != "" {
		return p.grep(text[:end], q, room, budget.Unit)
	}
	if n := budget.within(text[p.Offset:end], room); p.Offset+n < end {
		end = p.Offset + lineEnd(text[p.Offset:end], n)
	}
	p.Text = text[p.Offset:end]
	p.read(end)
	return p, nil
}

// room is what the frame of the page leaves of the budget.
func (p Page) room(budget Budget) int {
	n := p.Total
	p.NextOffset, p.Matches, p.Offset, p.Bytes = &n, &n, n, n
	b, _ := bridge.EncodeJSON(p)
	return max(max(budget.Most, LeastBudget)-budget.size(b), 0)
}

// read notes that the page ends before byte end of its stream.
func (p *Page) read(end int) {
	p.Bytes = end - p.Offset
	if end < p.Total {
		p.NextOffset = &end
	}
}

// longestMatch bounds one line of a search's answer, in bytes; less where
// there is little room, so that a line always fits.
const longestMatch = 400

// grep reads on from the page's offset and takes the lines that match, until
// the room is full; with Tail only the last of them.
func (p Page) grep(text string, q Query, room int, u Unit) (Page, error) {
	re, err := regexp.Compile(q.Grep)
	if err != nil {
		return Page{}, fmt.Errorf("%w: grep takes an RE2 expression: %v", ErrQuery, err)
	}
	longest := min(longestMatch, room/8)
	var found []string
	used, at := 0, p.Offset
	for number := 1 + strings.Count(text[:at], "\n"); at < len(text); number++ {
		line, _, _ := strings.Cut(text[at:], "\n")
		next := min(at+len(line)+1, len(text))
		if m := re.FindStringIndex(line); m != nil {
			hit := fmt.Sprintf("%d:%s\n", number, around(line, m[0], longest))
			used += u.cost(hit)
			if q.Tail == 0 && used > room {
				break
			}
			found = append(found, hit)
			for q.Tail > 0 && (len(found) > q.Tail || used > room) {
				used -= u.cost(found[0])
				found = found[1:]
			}
		}
		at = next
	}
	n := len(found)
	p.Matches = &n
	p.Text = strings.Join(found, "")
	p.read(at)
	return p, nil
}

// around is line, or n bytes of it around byte at if it is long.
func around(line string, at, n int) string {
	if len(line) <= n {
		return line
	}
	from := runeStart(line, max(0, min(at-n/4, len(line)-n)))
	to := runeStart(line, min(from+n, len(line)))
	s := line[from:to]
	if from > 0 {
		s = "…" + s
	}
	if to < len(line) {
		s += "…"
	}
	return s
}

// lastLines is where the last n lines of s begin; a newline at the end ends a
// line and does not begin one.
func lastLines(s string, n int) int {
	at := len(strings.TrimSuffix(s, "\n"))
	for ; n > 0; n-- {
		i := strings.LastIndexByte(s[:at], '\n')
		if i < 0 {
			return 0
		}
		at = i
	}
	return at + 1
}

// runeStart is the first byte at or after i that begins a rune of s.
func runeStart(s string, i int) int {
	i = max(i, 0)
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return i
}
