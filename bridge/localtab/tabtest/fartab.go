package tabtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge/localtab"
)

// A FarTab is one connection of a tab to the bridge, with a relay in the middle. Its methods may be
// called concurrently. It ends when the test does, or with [FarTab.Close].
type FarTab struct {
	Tab    *localtab.Tab
	Kernel *Kernel // nil if Knobs.Options.Kernel was another

	t      testing.TB
	outer  *websocket.Conn // to the bridge
	inner  *websocket.Conn // to the tab's MCP server
	valve  *valve          // under outer
	server *http.Server    // accepts inner
	tasks  sync.WaitGroup  // what an event started: late answers, timed drops
	pumps  sync.WaitGroup
	gone   chan struct{} // closed when the socket to the bridge has ended

	deliver sync.Mutex // held while a message is handed to the tab, so that a thaw keeps their order

	mu      sync.Mutex
	knobs   Knobs
	record  record
	frozen  bool
	heldIn  [][]byte // of the bridge, while frozen
	heldOut [][]byte // of the tab, while frozen
	swallow [][]byte // answers that were swallowed
	calls   map[string]request
	second  []byte // tools of the second page
	extra   int    // requests of our own so far
}

// Dial opens a far tab on link, over n or, if that is nil, over the real loopback. A tab that is
// refused fails the test.
func Dial(t testing.TB, n *Net, link string, k Knobs) *FarTab {
	t.Helper()
	f, err := TryDial(t, n, link, k)
	if err != nil {
		t.Fatalf("far tab: %v", err)
	}
	return f
}

// TryDial is [Dial] for a bridge that may refuse: the error is then a [localtab.RefusedError].
func TryDial(t testing.TB, n *Net, link string, k Knobs) (*FarTab, error) {
	t.Helper()
	f := &FarTab{t: t, knobs: k, gone: make(chan struct{}), calls: make(map[string]request)}
	if err := f.open(n, link); err != nil {
		return nil, err
	}
	f.pumps.Go(f.fromBridge)
	f.pumps.Go(f.fromTab)
	t.Cleanup(f.Close)
	return f, nil
}

func (f *FarTab) open(n *Net, link string) error {
	if r := f.knobs.Reuse; r != nil {
		f.Tab, f.Kernel = r.Tab, r.Kernel
	} else {
		o := f.knobs.Options
		if o.Kernel == nil {
			o.Kernel = new(Kernel)
		}
		f.Kernel, _ = o.Kernel.(*Kernel)
		tab, err := localtab.New(o)
		if err != nil {
			return err
		}
		f.Tab = tab
		f.t.Cleanup(func() {
			if err := tab.Close(); err != nil {
				f.t.Errorf("close the tab: %v", err)
			}
		})
	}
	// Dialling is an option of a tab; this one only dials.
	dialer, err := localtab.New(localtab.Options{Kernel: new(Kernel), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dial := (&net.Dialer{}).DialContext
		if n != nil {
			dial = n.Dial
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		f.valve = newValve(c)
		return f.valve, nil
	}})
	if err != nil {
		return err
	}
	f.outer, err = dialer.Dial(context.Background(), link)
	dialer.Close()
	if err != nil {
		return err
	}
	f.outer.SetReadLimit(-1)
	return f.openInner()
}

// openInner connects the relay to the tab's server through a network of its own.
func (f *FarTab) openInner() error {
	var between Net
	l := between.Listen()
	accepted := make(chan *websocket.Conn, 1)
	f.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}, InsecureSkipVerify: true})
		if err == nil {
			accepted <- c
		}
	})}
	f.pumps.Go(func() { f.server.Serve(l) })
	tabEnd, _, err := Raw{Net: &between, Host: fmt.Sprintf("localhost:%d", l.Addr().(*net.TCPAddr).Port), Path: "/",
		Subprotocols: []string{"mcp"}}.Dial(context.Background())
	if err != nil {
		f.server.Close()
		return err
	}
	f.inner = <-accepted
	f.inner.SetReadLimit(-1)
	f.pumps.Go(func() { f.Tab.Serve(context.Background(), tabEnd) }) // ends with inner
	return nil
}

// Close ends the connection as a tab that is closed does, with code 1001, and waits for what it
// started. A tab that has stopped reading just drops.
func (f *FarTab) Close() {
	f.mu.Lock()
	deaf := f.record.deaf
	f.mu.Unlock()
	if deaf {
		f.outer.CloseNow()
	} else {
		f.outer.Close(websocket.StatusGoingAway, "")
	}
	f.wait()
}

// Drop cuts the connection without a close frame, as a lost network does, and waits.
func (f *FarTab) Drop() {
	f.outer.CloseNow()
	f.wait()
}

// CloseWith sends a close frame with that code and waits.
func (f *FarTab) CloseWith(code websocket.StatusCode, reason string) {
	f.outer.Close(code, reason)
	f.wait()
}

func (f *FarTab) wait() {
	<-f.gone
	f.pumps.Wait()
	f.tasks.Wait()
}

// Gone is closed when the socket to the bridge has ended, from whichever side.
func (f *FarTab) Gone() <-chan struct{} { return f.gone }

// Set changes knobs from here on. Maps and slices are replaced, not changed in place.
func (f *FarTab) Set(change func(*Knobs)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.knobs)
}

// StopReading leaves whatever the bridge sends in the pipe, pings too: the half-open socket of a laptop
// that went to sleep.
func (f *FarTab) StopReading() {
	f.mu.Lock()
	f.record.deaf = true
	f.mu.Unlock()
	f.valve.stop()
}

// Freeze makes the page a frozen one: pings are answered, messages are not, and none are sent.
func (f *FarTab) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

// Thaw hands on, in order, what was held since [FarTab.Freeze].
func (f *FarTab) Thaw() {
	f.deliver.Lock()
	defer f.deliver.Unlock()
	f.mu.Lock()
	in, out := f.heldIn, f.heldOut
	f.heldIn, f.heldOut, f.frozen = nil, nil, false
	f.mu.Unlock()
	for _, frame := range out {
		f.send(frame)
	}
	for _, frame := range in {
		f.receive(frame)
	}
}

// Release sends the answers that Knobs.Swallow kept back: late answers to requests that may be forgotten.
func (f *FarTab) Release() {
	f.mu.Lock()
	frames := f.swallow
	f.swallow = nil
	f.mu.Unlock()
	for _, frame := range frames {
		f.answered(frame)
		f.send(frame)
	}
}

// Inject sends a text frame as it is, JSON or not.
func (f *FarTab) Inject(frame string) { f.send([]byte(frame)) }

// InjectBinary sends a binary frame.
func (f *FarTab) InjectBinary(frame []byte) {
	f.outer.Write(context.Background(), websocket.MessageBinary, frame)
}

// AddTools lists more tools and announces them once per tool, in a burst over that time.
func (f *FarTab) AddTools(over time.Duration, tools ...json.RawMessage) {
	for i, tool := range tools {
		if i > 0 {
			time.Sleep(over / time.Duration(len(tools)))
		}
		f.Set(func(k *Knobs) { k.ExtraTools = append(k.ExtraTools[:len(k.ExtraTools):len(k.ExtraTools)], tool) })
		f.ListChanged()
	}
}

// ListChanged sends notifications/tools/list_changed.
func (f *FarTab) ListChanged() {
	f.Inject(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
}

// Request sends a request of the tab's own, such as "ping" or "roots/list", and returns its id, a
// string. The bridge's answer is in [FarTab.Replies].
func (f *FarTab) Request(method, params string) string {
	f.mu.Lock()
	f.extra++
	id := fmt.Sprintf("tab-%d", f.extra)
	f.mu.Unlock()
	f.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params))
	return id
}

// send writes a frame to the bridge, or keeps it while the page is frozen. Errors are the socket's end,
// which the reader sees too.
func (f *FarTab) send(frame []byte) {
	f.mu.Lock()
	if f.frozen {
		f.heldOut = append(f.heldOut, frame)
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	f.outer.Write(context.Background(), websocket.MessageText, frame)
}

// drop ends the socket as the knobs say.
func (f *FarTab) drop() {
	f.mu.Lock()
	code := f.knobs.DropCode
	f.mu.Unlock()
	if code == 0 {
		f.outer.CloseNow()
		return
	}
	f.outer.Close(code, "")
}

// later runs what after d, unless the connection ends before.
func (f *FarTab) later(d time.Duration, what func()) {
	f.tasks.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			what()
		case <-f.gone:
		}
	})
}
