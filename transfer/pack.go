package transfer

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
)

// packer compresses chunks at level 1, which costs less time than the bytes it saves. It is for one goroutine.
type packer struct {
	buf bytes.Buffer
	w   *zlib.Writer
}

// pack returns the compressed chunk, valid until the next call.
func (p *packer) pack(chunk []byte) []byte {
	p.buf.Reset()
	if p.w == nil {
		p.w, _ = zlib.NewWriterLevel(&p.buf, zlib.BestSpeed) // the level is a valid one
	} else {
		p.w.Reset(&p.buf)
	}
	p.w.Write(chunk) // a Buffer takes everything
	p.w.Close()
	return p.buf.Bytes()
}

// packs tells whether compression gains ten percent on a sample from the start, the middle and the end.
func packs(r io.ReaderAt, size int64) (bool, error) {
	const part = 64 << 10
	sample := make([]byte, 0, 3*part)
	for i := range int64(3) {
		n, err := r.ReadAt(sample[len(sample):len(sample)+part], max(0, size-part)*i/2)
		if err != nil && err != io.EOF {
			return false, err
		}
		sample = sample[:len(sample)+n]
	}
	var p packer
	return len(p.pack(sample))*10 <= len(sample)*9, nil
}

// unpack decompresses a chunk of n bytes, and no more.
func unpack(packed []byte, n int) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	chunk := make([]byte, n)
	if _, err := io.ReadFull(r, chunk); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != io.EOF { // reads the sum too
		return nil, fmt.Errorf("more than %d bytes, or a wrong end: %v", n, err)
	}
	return chunk, nil
}
