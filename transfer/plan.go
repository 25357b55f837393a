package transfer

import "time"

// Chunk sizes, in bytes of the file.
const (
	minChunk   = 64 << 10
	firstChunk = 512 << 10
	maxChunk   = 4 << 20
)

// plan chooses the size of the next chunk from how the ones before fared. Large chunks cost fewer round trips; small ones hold the runtime for
// less time and get through where a page cuts long outputs. The zero plan begins at firstChunk. It is for one goroutine.
type plan struct {
	size    int // of the next chunk, 0 = firstChunk
	ceiling int // not above this, 0 = maxChunk
	good    int // chunks in a row since the last failure
	failed  int // failures in a row
}

const (
	briefChunk = 300 * time.Millisecond // a chunk that ran for less may grow
	longChunk  = 1500 * time.Millisecond
	forgive    = 32 // good chunks before a size that failed is tried again
	maxFailed  = 6  // failures in a row before giving up
)

// next is the size of the next chunk, between minChunk and maxChunk.
func (p *plan) next() int {
	if p.size == 0 {
		p.size = firstChunk
	}
	if p.ceiling == 0 {
		p.ceiling = maxChunk
	}
	return min(p.size, p.ceiling)
}

// came takes note of a chunk of n bytes that came through and ran for took.
func (p *plan) came(n int, took time.Duration) {
	p.failed, p.good = 0, p.good+1
	size := p.next()
	if p.good%forgive == 0 {
		p.ceiling = min(2*p.ceiling, maxChunk)
	}
	switch {
	case n < size: // the last one, or cut short by the end of another
	case took < briefChunk:
		p.size = min(2*size, maxChunk)
	case took > longChunk:
		p.size = max(size/2, minChunk)
	}
}

// lost takes note of one that did not come through. It is false when that has happened too often.
func (p *plan) lost() bool {
	size := p.next()
	p.failed, p.good = p.failed+1, 0
	p.size = max(size/2, minChunk)
	p.ceiling = p.size
	return p.failed < maxFailed
}

// pause is how long to wait before the next try.
func (p *plan) pause() time.Duration { return 50 * time.Millisecond << p.failed }
