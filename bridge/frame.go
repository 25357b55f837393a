package bridge

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/coder/websocket"
)

// frames reads messages into memory of their own, with as little copying as
// can be without knowing their size: small ones through a buffer that stays,
// a large one into as much as the last large one took. It is for one
// goroutine.
type frames struct {
	conn  *websocket.Conn
	small [32 << 10]byte
	large int // bytes of the last message that was not small
}

// next returns the next message; the slice is the caller's.
func (f *frames) next(ctx context.Context) (websocket.MessageType, []byte, error) {
	kind, r, err := f.conn.Reader(ctx)
	if err != nil {
		return kind, nil, err
	}
	n, err := io.ReadFull(r, f.small[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return kind, append([]byte(nil), f.small[:n]...), nil
	}
	if err != nil {
		return kind, nil, err
	}
	buf := make([]byte, n, max(f.large, 4*len(f.small)))
	copy(buf, f.small[:])
	for {
		m, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+m]
		if errors.Is(err, io.EOF) {
			f.large = len(buf) + 1     // the room in which the end is seen
			if cap(buf) > 2*len(buf) { // answers are kept
				buf = bytes.Clone(buf)
			}
			return kind, buf, nil
		}
		if err != nil {
			return kind, nil, err
		}
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
	}
}
