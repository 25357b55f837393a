package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// ErrTabGone says that the tab's connection ended before a call was sent to
// it: nothing happened.
var ErrTabGone = errors.New("the tab is gone")

// UnknownError says that a call was sent and its answer never came. What it
// asked for may have happened, may still happen, and is never sent again.
type UnknownError struct {
	Tool string
	Err  error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s was sent and the tab left before it answered: %v", e.Tool, e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// SilentError says that the tab did not answer a call in time. Frozen means
// that the page does not run at all, as browsers do to hidden tabs.
type SilentError struct {
	Tool   string
	After  time.Duration
	Frozen bool
}

func (e *SilentError) Error() string {
	if e.Frozen {
		return fmt.Sprintf("%s: the page answers nothing, it may be frozen in the background (waited %s)", e.Tool, e.After.Round(time.Second))
	}
	return fmt.Sprintf("%s: no answer in %s", e.Tool, e.After.Round(time.Second))
}

const (
	callTimeout  = 30 * time.Second // for a call that runs no code
	frozenAfter  = 3 * time.Second  // then the page is asked whether it lives,
	frozenWithin = 2 * time.Second  // and must say so in this time
)

// Tab is one live connection to a Colab tab. Its methods are safe for
// concurrent use: reads and edits may go beside a run, and it is the [Gate]
// that keeps runs apart.
type Tab struct {
	peer    *peer
	traffic *traffic
	log     *slog.Logger
	since   time.Time
	server  json.RawMessage // its serverInfo
	version string          // protocol version it speaks

	refresh chan struct{}         // the tab says that its tools changed
	onLog   func(json.RawMessage) // params of notifications/message

	mu     sync.Mutex // guards all below
	tools  []Tool
	parsed map[string]parsedTool // of tools, by name, as far as called
}

// Gone is closed when the connection is over.
func (t *Tab) Gone() <-chan struct{} { return t.peer.done }

// Why says how the connection ended, nil while it lives.
func (t *Tab) Why() error { return t.peer.why() }

// Call asks a tool that runs no code and returns its result object as the tab
// sent it. It fails with [SilentError] after 30 seconds, or after about five
// when the page is frozen; when ctx ends first the tab is told to forget it.
// progress, if not nil, gets the tab's progress params and must not block. A
// tool that the tab does not list is not sent: the error is a
// *[MissingToolError], also of Run.
func (t *Tab) Call(ctx context.Context, tool string, args json.RawMessage, progress func(json.RawMessage)) (json.RawMessage, error) {
	began := time.Now()
	c, err := t.start(ctx, tool, args, progress)
	if err != nil {
		return nil, err
	}
	deadline := time.NewTimer(callTimeout)
	defer deadline.Stop()
	doubt := time.NewTimer(frozenAfter)
	defer doubt.Stop()
	for {
		select {
		case a := <-c.answer:
			return a.result, a.err
		case <-t.peer.done:
			return t.lost(c, tool)
		case <-ctx.Done():
			t.peer.cancel(c, "the caller left")
			return nil, ctx.Err()
		case <-deadline.C:
			t.peer.cancel(c, "timed out")
			return nil, &SilentError{Tool: tool, After: time.Since(began)}
		case <-doubt.C:
			if a, answered := t.frozen(ctx, c); answered {
				if a == nil {
					t.peer.cancel(c, "timed out")
					return nil, &SilentError{Tool: tool, After: time.Since(began), Frozen: true}
				}
				return a.result, a.err
			}
			doubt.Reset(frozenAfter)
		}
	}
}

// Run asks a tool that may run code and waits as long as it takes: no caller's
// impatience reaches the tab, which would only fall silent while the cell goes
// on. The caller holds the turn.
func (t *Tab) Run(tool string, args json.RawMessage, progress func(json.RawMessage)) (json.RawMessage, error) {
	c, err := t.start(context.Background(), tool, args, progress)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-c.answer:
		return a.result, a.err
	case <-t.peer.done:
		return t.lost(c, tool)
	}
}

func (t *Tab) start(ctx context.Context, tool string, args json.RawMessage, progress func(json.RawMessage)) (*call, error) {
	if err := t.Needs(tool); err != nil {
		return nil, err
	}
	params := func(id int64) json.RawMessage { return callParams(tool, args, id, progress != nil) }
	return t.peer.start(ctx, "tools/call", params, progress)
}

// callParams leaves an omitted arguments omitted: null is something else.
func callParams(tool string, args json.RawMessage, id int64, progress bool) json.RawMessage {
	name, _ := json.Marshal(tool)
	b := make([]byte, 0, len(args)+len(name)+64)
	b = append(b, `{"name":`...)
	b = append(b, name...)
	if args != nil {
		b = append(b, `,"arguments":`...)
		b = append(b, args...)
	}
	if progress {
		b = fmt.Appendf(b, `,"_meta":{"progressToken":%d}`, id)
	}
	return append(b, '}')
}

// lost is the outcome of a call whose connection ended: an answer that came
// together with the end counts.
func (t *Tab) lost(c *call, tool string) (json.RawMessage, error) {
	select {
	case a := <-c.answer:
		return a.result, a.err
	default:
	}
	switch {
	case !readOnly(tool):
		return nil, &UnknownError{tool, t.reason()}
	case errors.Is(t.peer.why(), websocket.ErrMessageTooBig): // and would be again
		return nil, &FrameError{t.reason()}
	}
	return nil, ErrTabGone
}

// frozen finds out whether the page runs, by an MCP ping: browsers answer
// WebSocket pings for a frozen page. It reports answered = true when the wait
// is over: with the call's answer, or with nil for a page that says nothing
// although nothing else is arriving either.
func (t *Tab) frozen(ctx context.Context, c *call) (a *answer, answered bool) {
	heard := t.traffic.received()
	ping, err := t.peer.start(ctx, "ping", func(int64) json.RawMessage { return nil }, nil)
	if err != nil {
		return nil, false
	}
	defer t.peer.forget(ping)
	limit := time.NewTimer(frozenWithin)
	defer limit.Stop()
	select {
	case a := <-c.answer:
		return &a, true
	case <-ping.answer:
	case <-t.peer.done:
	case <-ctx.Done():
	case <-limit.C:
		return nil, t.traffic.received()-heard <= quiet
	}
	return nil, false
}

// ErrTooLarge is why a connection broke over which the tab sent more at once
// than is taken.
var ErrTooLarge = fmt.Errorf("its answer is larger than %d MiB, the most that is taken: let the cell print less, or write to a file and fetch that", maxFrame>>20)

// reason puts the end of the connection into words for a person.
func (t *Tab) reason() error {
	err := t.peer.why()
	var closed websocket.CloseError
	var ours hungUpError
	switch {
	case errors.As(err, &ours):
		return err
	case errors.Is(err, websocket.ErrMessageTooBig):
		return ErrTooLarge
	case errors.As(err, &closed):
		return fmt.Errorf("it closed the connection (%d %s)", closed.Code, closed.Reason)
	case errors.Is(err, errDead), errors.Is(err, net.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return errDead // also where a ping or a message was not taken in time, and the library closed
	default:
		return errors.New("the connection broke")
	}
}
