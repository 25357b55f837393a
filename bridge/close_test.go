package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// Close ends what waits, and nothing opens after it.
func TestCloseEndsOpenings(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		c := d.opening(t.Context(), bridge.Ask{})
		d.Close()
		if o := <-c; o.err == nil {
			t.Errorf("opened %+v", o.Opened)
		}
		_, err := d.Open(t.Context(), bridge.Ask{Link: link(t, bookA)})
		synctest.Wait()
		if n := len(d.links()); err == nil || n != 1 {
			t.Errorf("a closed bridge opens: %v, %d links", err, n)
		}
	})
}

// L14: Close waits for what Start and Open begin beside it, and begins nothing after them. In real time, for the race
// detector.
func TestCloseBesideStartAndOpen(t *testing.T) {
	for range 500 {
		var n tabtest.Net
		b := bridge.New(bridge.Options{
			Listen:     func(int) ([]net.Listener, error) { return []net.Listener{n.Listen()}, nil },
			Browse:     func(context.Context, string) error { return nil },
			OnIdentity: func(bridge.Identity, bridge.Link) {},
		})
		ask := bridge.Ask{Link: link(t, bookA), Force: true}
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() { b.Open(t.Context(), ask) })
		}
		b.Close()
		callers.Wait()
	}
}

// L14: the port is free also when Start had just bound it.
func TestCloseDuringStartFreesThePort(t *testing.T) {
	var n tabtest.Net
	var b *bridge.Bridge
	var once sync.Once
	b = bridge.New(bridge.Options{
		Listen: func(int) ([]net.Listener, error) { return []net.Listener{n.Listen()}, nil },
		Log: slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
			if !bytes.Contains(p, []byte("listening")) {
				return
			}
			once.Do(func() {
				b.Close()
				now, stop := context.WithCancel(t.Context())
				stop()
				if _, err := n.Dial(now, "tcp", "localhost:49152"); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("after Close the port is served: %v", err)
				}
			})
		}), nil)),
	})
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// L14: with a tab connected and a cell running, the tab gets a close frame and the port is free.
func TestCloseSaysGoodbyeToTheTab(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{})
		run := running(t, tab, "sleep 1h")
		begun := time.Now()
		d.Close()
		within(t, "closing", time.Since(begun), 0, 2*time.Second)
		var unknown *bridge.UnknownError
		if o := <-run; !errors.As(o.err, &unknown) {
			t.Errorf("the run: %s, %v", o.result, o.err)
		}
		<-f.Gone()
		if code, _ := f.CloseCode(); code != 1001 {
			t.Errorf("closed with %d", code)
		}
		id, _ := d.Identity()
		if c, err := d.net.Dial(t.Context(), "tcp", fmt.Sprintf("localhost:%d", id.Port)); err == nil {
			c.Close()
			t.Error("the port is still served")
		}
	})
}

// L14: also to one that has just been let in. Here in real time, for the race
// detector: in a bubble the two never meet.
func TestCloseSaysGoodbyeToATabThatArrives(t *testing.T) {
	for range 100 {
		d := newDesk(t, bridge.Options{})
		conn, _, err := tabtest.RawOf(d.net, d.link()).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() { d.Close(); close(closed) }()
		for err == nil { // the handshake's first request may come before
			_, _, err = conn.Read(t.Context())
		}
		if code := websocket.CloseStatus(err); code != websocket.StatusGoingAway {
			t.Fatalf("closed with %d: %v", code, err)
		}
		<-closed
	}
}

// L14: also with a tab that reads nothing any more.
func TestCloseDoesNotWaitForADeafTab(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, _ := d.connect(tabtest.Knobs{})
		f.StopReading()
		begun := time.Now()
		d.Close()
		within(t, "closing", time.Since(begun), 0, 2*time.Second)
	})
}

// L14: also with a second one that was turned away and reads nothing.
func TestCloseDoesNotWaitForADeafRival(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.connect(tabtest.Knobs{})
		rival, _, err := tabtest.RawOf(d.net, d.link()).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer rival.CloseNow()
		synctest.Wait()
		begun := time.Now()
		d.Close()
		within(t, "closing", time.Since(begun), 0, 2*time.Second)
	})
}
