package bridge

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// beat is the longest silence of a call that a client watches, within a
	// tick.
	beat = 8 * time.Second
	tick = time.Second
)

// Progress reports on one call, if its request carries a progress token: with
// that token in its JSON type, with numbers that only grow, and never after
// the answer or the caller's cancel. It is safe for concurrent use.
type Progress struct {
	req   *mcp.CallToolRequest
	token any
	began time.Time
	left  <-chan struct{} // closed when the caller cancels
	stop  chan struct{}
	done  sync.WaitGroup

	mu    sync.Mutex // guards all below, and sending
	at    float64
	words string
	sent  time.Time
	over  bool
}

func newProgress(ctx context.Context, req *mcp.CallToolRequest) *Progress {
	p := &Progress{req: req, token: req.Params.GetProgressToken(), began: time.Now(), left: ctx.Done(), stop: make(chan struct{})}
	if p.Wanted() {
		p.sent = p.began
		p.done.Go(p.beat)
	}
	return p
}

// Wanted reports whether anybody watches.
func (p *Progress) Wanted() bool { return p.token != nil }

// Say reports words, with the seconds since the call as the number.
func (p *Progress) Say(words string) { p.Report(words, time.Since(p.began).Seconds(), 0) }

// Waiting is Say in the form that waiting for a tab takes.
func (p *Progress) Waiting(_ time.Duration, words string) { p.Say(words) }

// Report sends one report. total is 0 when it is not known. A number that does
// not grow is nudged.
func (p *Progress) Report(words string, at, total float64) {
	if !p.Wanted() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.left:
		p.over = true
	default:
	}
	if p.over {
		return
	}
	if at <= p.at {
		at = max(p.at+0.001, math.Nextafter(p.at, math.Inf(1)))
	}
	p.at, p.words, p.sent = at, words, time.Now()
	p.req.Session.NotifyProgress(context.Background(), &mcp.ProgressNotificationParams{
		ProgressToken: p.token, Message: words, Progress: at, Total: total,
	})
}

// Relay passes on the tab's own progress, whose token is the tab's business.
func (p *Progress) Relay(params json.RawMessage) {
	var said struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	if json.Unmarshal(params, &said) == nil {
		p.Report(said.Message, said.Progress, said.Total)
	}
}

// beat says the last words again, so that a client that gives up after a
// silence does not.
func (p *Progress) beat() {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-p.left:
			return
		case now := <-ticks.C:
			p.mu.Lock()
			words, quiet := p.words, now.Sub(p.sent)
			p.mu.Unlock()
			if quiet < beat {
				continue
			}
			if words == "" {
				words = "working"
			}
			p.Report(words, now.Sub(p.began).Seconds(), 0)
		}
	}
}

// end is called before the answer: nothing is sent after it.
func (p *Progress) end() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	close(p.stop)
	p.done.Wait()
}
