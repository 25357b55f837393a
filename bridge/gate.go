package bridge

import (
	"context"
	"sync"
	"time"
)

// Gate lets one execution at a time reach the runtime, first come first
// served. A turn belongs to a call, not to who asked for it: it is held until
// the tab has answered or is gone, even when the caller lost patience.
//
// A Gate is safe for concurrent use.
type Gate struct {
	mu     sync.Mutex // guards all below
	holder *Turn
	queue  []*Turn
}

// Turn is the right to run. Leave gives it up, once; more is harmless.
type Turn struct {
	gate  *Gate
	op    string
	since time.Time
	mine  chan struct{} // closed when it is this turn's time
}

// Enter waits for its turn and returns it. Waiting ends early when the caller
// leaves (the context's error) or when gone is closed ([ErrTabGone]).
func (g *Gate) Enter(ctx context.Context, op string, gone <-chan struct{}) (*Turn, error) {
	t := &Turn{gate: g, op: op, mine: make(chan struct{})}
	g.mu.Lock()
	if g.holder == nil {
		g.hand(t)
	} else {
		g.queue = append(g.queue, t)
	}
	g.mu.Unlock()

	err := error(nil)
	select {
	case <-t.mine:
	case <-ctx.Done():
		err = ctx.Err()
	case <-gone:
		err = ErrTabGone
	}
	if err == nil { // the turn may have come together with the end
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-gone:
			err = ErrTabGone
		default:
			return t, nil
		}
	}
	t.Leave()
	return nil, err
}

// Leave gives the turn to the next in line, or leaves the line.
func (t *Turn) Leave() {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holder != t {
		for i, w := range g.queue {
			if w == t {
				g.queue = append(g.queue[:i], g.queue[i+1:]...)
				return
			}
		}
		return
	}
	g.holder = nil
	if len(g.queue) > 0 {
		next := g.queue[0]
		g.queue = g.queue[1:]
		g.hand(next)
	}
}

// hand makes t the holder. The caller holds g.mu.
func (g *Gate) hand(t *Turn) {
	g.holder, t.since = t, time.Now()
	close(t.mine)
}

// Holder names what holds the gate and since when, so that "busy" can be told
// to a person.
func (g *Gate) Holder() (op string, since time.Time, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holder == nil {
		return "", time.Time{}, false
	}
	return g.holder.op, g.holder.since, true
}
