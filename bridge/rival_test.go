package bridge_test

import (
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
