package bridge_test

import (
	"errors"
	"fmt"
	"testing"
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
		if _, err := d.Open(t.Context(), bridge.Ask{}); err == nil {
			t.Error("a closed bridge opens")
		}
	})
}

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
