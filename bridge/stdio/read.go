package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// edge is how much is kept of either end of a line that is too long, in bytes: enough to find its id.
const edge = 4 << 10

// A line is one line of input without its newline.
type line struct {
	text []byte // all of it; the first bytes only, if the line is too long
	tail []byte // the last bytes of a line that is too long, else nil
	size int64  // in bytes, as it came
}

func (l *line) tooLong() bool { return l.tail != nil }

// A lineReader cuts a stream into lines. It holds at most about max bytes of any line and finds the next
// newline again after a longer one.
type lineReader struct {
	r   *bufio.Reader
	max int
	err error // sticky: a terminal can be read on after its end of file
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// next returns the next line. A last line without a newline counts.
func (lr *lineReader) next() (line, error) {
	var l line
	for lr.err == nil {
		part, err := lr.r.ReadSlice('\n')
		if err == nil {
			lr.add(&l, part[:len(part)-1])
			return l, nil
		}
		lr.add(&l, part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			lr.err = err
			if errors.Is(err, io.EOF) && l.size > 0 {
				return l, nil
			}
		}
	}
	return line{}, lr.err
}

func (lr *lineReader) add(l *line, part []byte) {
	l.size += int64(len(part))
	switch {
	case l.tooLong():
		l.tail = append(l.tail, part...)
		if n := len(l.tail); n > edge {
			l.tail = l.tail[:copy(l.tail, l.tail[n-edge:])]
		}
	case l.size > int64(lr.max):
		whole := append(l.text, part...)
		n := min(edge, len(whole))
		l.text, l.tail = bytes.Clone(whole[:n]), bytes.Clone(whole[len(whole)-n:])
	default:
		l.text = append(l.text, part...)
	}
}
