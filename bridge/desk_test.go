package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// A desk is a bridge on an in-memory loopback, and the user's browser beside it.
type desk struct {
	*bridge.Bridge
	t     *testing.T
	net   *tabtest.Net
	users sync.WaitGroup

	mu     sync.Mutex
	opened []string // links the browser was given
	user   func(link string)
	log    bytes.Buffer
}

func newDesk(t *testing.T, o bridge.Options) *desk {
	t.Helper()
	d := &desk{t: t, net: new(tabtest.Net)}
	if o.Listen == nil {
		o.Listen = func(int) ([]net.Listener, error) { return []net.Listener{d.net.Listen()}, nil }
	}
	if o.Browse == nil {
		o.Browse = func(_ context.Context, link string) error { d.browse(link); return nil }
	}
	o.Log = slog.New(slog.NewTextHandler(lockedWriter{&d.mu, &d.log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d.Bridge = bridge.New(o)
	if err := d.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		d.Close()
		d.users.Wait()
		if token := d.token(); strings.Contains(d.logged(), token) {
			t.Error("the log holds the token") // S4
		}
	})
	return d
}

// inBubble runs f with a desk in virtual time.
func inBubble(t *testing.T, o bridge.Options, f func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newDesk(t, o)) })
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (d *desk) browse(link string) {
	d.mu.Lock()
	d.opened = append(d.opened, link)
	user := d.user
	d.mu.Unlock()
	if user != nil {
		d.users.Go(func() { user(link) })
	}
}

// accepts makes the user accept each link that opens after so long, in a tab of those knobs.
func (d *desk) accepts(after time.Duration, k tabtest.Knobs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.user = func(link string) {
		time.Sleep(after)
		if _, err := tabtest.TryDial(d.t, d.net, link, k); err != nil {
			d.t.Errorf("the user's tab: %v", err)
		}
	}
}

// links are those the browser was given.
func (d *desk) links() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.opened...)
}

func (d *desk) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

func (d *desk) token() string {
	id, _ := d.Identity()
	return id.Token
}

// link is what the user's page is opened with now.
func (d *desk) link() string {
	id, notebook := d.Identity()
	return notebook.Open(id.Token, id.Port)
}

// dial connects a far tab without the opener, as a page that was open before.
func (d *desk) dial(k tabtest.Knobs) *tabtest.FarTab {
	d.t.Helper()
	f := tabtest.Dial(d.t, d.net, d.link(), k)
	synctest.Wait()
	return f
}

// connect is dial for a tab that must be ready at once.
func (d *desk) connect(k tabtest.Knobs) (*tabtest.FarTab, *bridge.Tab) {
	d.t.Helper()
	f := d.dial(k)
	tab := d.Live()
	if tab == nil {
		d.t.Fatalf("the tab is not ready: %+v\n%s", d.Status(), d.logged())
	}
	return f, tab
}

// an outcome is what a call in the background came to.
type outcome struct {
	result json.RawMessage
	err    error
	took   time.Duration
}

// later runs call beside the test.
func later(call func() (json.RawMessage, error)) <-chan outcome {
	c := make(chan outcome, 1)
	begun := time.Now()
	go func() {
		result, err := call()
		c <- outcome{result, err, time.Since(begun)}
	}()
	return c
}

// running adds a cell with that script and starts its run.
func running(t *testing.T, tab *bridge.Tab, script string) <-chan outcome {
	t.Helper()
	id := addCell(t, tab, script)
	run := later(func() (json.RawMessage, error) {
		return tab.Run(bridge.RunCodeCell, fmt.Appendf(nil, `{"cellId":%q}`, id), nil)
	})
	synctest.Wait()
	return run
}

func addCell(t *testing.T, tab *bridge.Tab, script string) string {
	t.Helper()
	args, err := json.Marshal(map[string]any{"cellIndex": 9999, "language": "python", "code": script})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tab.Call(t.Context(), bridge.AddCodeCell, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		StructuredContent struct{ NewCellID string }
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.StructuredContent.NewCellID == "" {
		t.Fatalf("add_code_cell answered %s", raw)
	}
	return r.StructuredContent.NewCellID
}

// pending fails the test if c has an outcome already.
func pending(t *testing.T, c <-chan outcome, what string) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-c:
		t.Fatalf("%s: ended with %s, %v", what, o.result, o.err)
	default:
	}
}

// within checks that d is from lo to hi.
func within(t *testing.T, what string, d, lo, hi time.Duration) {
	t.Helper()
	if d < lo || d > hi {
		t.Errorf("%s took %v, want %v to %v", what, d, lo, hi)
	}
}
