package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// turnedAway checks that a tab was closed as the second one.
func turnedAway(t *testing.T, f *tabtest.FarTab) {
	t.Helper()
	<-f.Gone()
	if code, why := f.CloseCode(); code != websocket.StatusTryAgainLater || !strings.Contains(why, "one notebook") {
		t.Errorf("the second tab was closed with %d %q", code, why)
	}
}

// L4: the first is alive, so the second is turned away, however often it comes, and the first notices nothing.
func TestSecondTabIsTurnedAwayFromALiveOne(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		first, tab := d.connect(tabtest.Knobs{})
		run := running(t, tab, "sleep 5m\nresult undisturbed")
		before := len(first.Received())
		for range 20 {
			second := d.dial(tabtest.Knobs{})
			turnedAway(t, second)
			if n := len(second.Received()); n != 0 {
				t.Errorf("the second tab got %d messages", n)
			}
		}
		if d.Live() != tab {
			t.Fatalf("the first was given up: %v", tab.Why())
		}
		if n := len(first.Received()); n != before {
			t.Errorf("the first got %d messages more", n-before)
		}
		works(t, tab)
		if o := <-run; o.err != nil || !strings.Contains(string(o.result), "undisturbed") {
			t.Errorf("the run: %s, %v", o.result, o.err)
		}
	})
}

// L4: the example.
func TestSecondTabReplacesADeadOne(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		first, tab := d.connect(tabtest.Knobs{})
		run := running(t, tab, "sleep 1h")
		first.StopReading()
		begun := time.Now()
		second := d.dial(tabtest.Knobs{})
		<-tab.Gone()
		synctest.Wait()
		within(t, "the take-over", time.Since(begun), 0, 3*time.Second)
		if o := <-run; o.err == nil {
			t.Errorf("the run of the dead tab was answered: %s", o.result)
		}
		live := d.Live()
		if live == nil || live == tab {
			t.Fatalf("the second is not ready: %+v", d.Status())
		}
		works(t, live)
		if len(second.Calls("run_code_cell")) != 0 {
			t.Error("the run was replayed")
		}
	})
}

// L4, L5: a frozen page is no dead one.
func TestFrozenTabKeepsItsPlace(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		first, tab := d.connect(tabtest.Knobs{})
		first.Freeze()
		turnedAway(t, d.dial(tabtest.Knobs{}))
		first.Thaw()
		works(t, tab)
	})
}

// L4: many at once, with one place.
func TestOneOfManyTabsGetsThePlace(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		var all []*tabtest.FarTab
		done := make(chan *tabtest.FarTab)
		for range 10 {
			go func() { // tabs of one browser, all reloaded at once
				f, err := tabtest.TryDial(t, d.net, d.link(), tabtest.Knobs{})
				if err != nil {
					t.Error(err)
				}
				done <- f
			}()
		}
		for range 10 {
			all = append(all, <-done)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		in := 0
		for _, f := range all {
			select {
			case <-f.Gone():
				turnedAway(t, f)
			default:
				in++
			}
		}
		if in != 1 || d.Live() == nil {
			t.Errorf("%d tabs are in: %+v", in, d.Status())
		}
	})
}

// L4: the dead one is replaced by one of those who want its place.
func TestManyWantTheDeadTabsPlace(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		first, tab := d.connect(tabtest.Knobs{})
		first.StopReading()
		for range 5 {
			d.dial(tabtest.Knobs{})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		live := d.Live()
		if live == nil || live == tab {
			t.Fatalf("nobody got the place: %+v", d.Status())
		}
		works(t, live)
	})
}

// L9, L4: a tab that waits for the place while its token is retired gets nothing.
func TestWaitingRivalLosesWithItsToken(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		first, _ := d.connect(tabtest.Knobs{})
		first.StopReading()
		second := d.dial(tabtest.Knobs{}) // probes the first for two seconds
		time.Sleep(time.Second)
		d.Rotate()
		<-second.Gone()
		synctest.Wait()
		if d.Live() != nil {
			t.Error("a tab with a retired token is live")
		}
		d.connect(tabtest.Knobs{})
	})
}

// L9: a token that is retired while its tab is being upgraded takes the tab with it.
func TestUpgradingTabLosesWithItsToken(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		id, _ := d.Identity()
		c := d.raw()
		defer c.Close()
		fmt.Fprintf(c, "GET /?access_token=%s HTTP/1.1\r\nHost: localhost:%d\r\nOrigin: https://colab.research.google.com\r\nConnection: Upgrade\r\n"+
			"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n", id.Token, id.Port)
		synctest.Wait() // the answer waits to be read
		rotated := make(chan struct{})
		go func() {
			d.Rotate()
			close(rotated)
		}()
		synctest.Wait()
		r := bufio.NewReader(c)
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 101 {
			t.Fatalf("the upgrade: %v, %v", resp, err)
		}
		head := make([]byte, 4) // a close frame: RFC 6455, 5.5.1
		if _, err := io.ReadFull(r, head); err != nil {
			t.Fatal(err)
		}
		if code := int(head[2])<<8 | int(head[3]); head[0] != 0x88 || code != int(bridge.StatusMoved) {
			t.Errorf("the first frame is %x, want a close with %d", head, bridge.StatusMoved)
		}
		io.Copy(io.Discard, r) // until it is cut off
		<-rotated
		d.connect(tabtest.Knobs{})
	})
}
