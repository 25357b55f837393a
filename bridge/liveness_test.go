package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// Issue 5, point 3
func TestIdleTabStaysConnected(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{})
		for range 24 {
			time.Sleep(time.Hour)
			works(t, tab)
		}
		if d.Live() != tab {
			t.Errorf("given up: %v", tab.Why())
		}
	})
}

// Issue 5, point 3: a half-open socket is noticed although nobody asks anything.
func TestHalfOpenSocketIsNoticed(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{})
		run := running(t, tab, "sleep 1h")
		f.StopReading()
		begun := time.Now()
		<-tab.Gone()
		within(t, "noticing", time.Since(begun), 0, time.Minute)
		var unknown *bridge.UnknownError
		if o := <-run; !errors.As(o.err, &unknown) {
			t.Errorf("the run: %s, %v", o.result, o.err)
		}
		synctest.Wait()
		if s := d.Status(); s.State != "disconnected" || s.Dropped == "" {
			t.Errorf("status %+v", s)
		}
		d.connect(tabtest.Knobs{})
	})
}

// Issue 5, point 3: whatever is asked of a half-open socket ends in bounded time.
func TestCallsOfAHalfOpenSocketEnd(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{})
		f.StopReading()
		var all []<-chan outcome
		for range 5 {
			all = append(all, call(t, tab, "get_cells", ""), call(t, tab, "update_cell", `{}`))
		}
		all = append(all, later(func() (json.RawMessage, error) { return tab.Run("run_code_cell", nil, nil) }))
		for _, c := range all {
			if o := <-c; o.err == nil || o.took > time.Minute {
				t.Errorf("after %v: %s, %v", o.took, o.result, o.err)
			}
		}
	})
}

// Issue 5, point 5: a laptop that slept. Its clock jumps, the tab is still there.
func TestTabSurvivesTheLaptopsSleep(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{})
		run := running(t, tab, "sleep 9h\nresult morning")
		f.Freeze()
		time.Sleep(8 * time.Hour) // hidden pages are frozen before the machine sleeps
		f.Thaw()
		works(t, tab)
		if o := <-run; o.err != nil || !strings.Contains(string(o.result), "morning") {
			t.Errorf("the run: %s, %v", o.result, o.err)
		}
	})
}

// Issue 5, point 5: the tab did not survive it, and is re-opened when it is needed.
func TestTabLostInTheLaptopsSleepIsReopened(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f := d.openWith(bookA)
		f.StopReading()
		time.Sleep(8 * time.Hour)
		d.accepts(time.Second, tabtest.Knobs{})
		n := <-d.need(t.Context())
		if n.err != nil {
			t.Fatal(n.err)
		}
		works(t, n.tab)
		d.wants(bookA, 2)
	})
}

// The pong queues behind data: a tab that is sending is alive, however long it takes.
func TestTabThatSendsIsAlive(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		p := d.page(map[string]string{"initialize": `{}`, "tools/list": someTools})
		tab := d.Live()
		if tab == nil {
			t.Fatal("not ready")
		}
		c := call(t, tab, "update_cell", "")
		// One message in pieces over five minutes; its reader answers pings between them only.
		w, err := p.conn.Writer(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(`{"jsonrpc":"2.0","id":999,"result":{"text":"`))
		piece := []byte(strings.Repeat("x", 64<<10))
		for range 300 {
			w.Write(piece)
			time.Sleep(time.Second)
		}
		w.Write([]byte(`"}}`))
		if err := w.Close(); err != nil {
			t.Errorf("the tab was cut off while it was sending: %v", err)
		}
		synctest.Wait()
		if d.Live() != tab {
			t.Errorf("given up: %v", tab.Why())
		}
		<-c
	})
}

// The ping queues behind data too: a message that takes its time on a slow tunnel is no dead tab.
func TestTabThatTakesALongMessageIsAlive(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		raw := tabtest.RawOf(d.net, d.link())
		conn, _, err := raw.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1)
		next := func() (m struct{ ID json.RawMessage }) {
			_, frame, err := conn.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			json.Unmarshal(frame, &m)
			return m
		}
		reply := func(id json.RawMessage, result string) {
			conn.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
		}
		reply(next().ID, `{}`)
		next()
		reply(next().ID, someTools)
		synctest.Wait()
		tab := d.Live()
		long := fmt.Sprintf(`{"code":%q}`, strings.Repeat("x", 8<<20))
		run := later(func() (json.RawMessage, error) { return tab.Run("run_code_cell", json.RawMessage(long), nil) })

		_, r, err := conn.Reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, piece := 0, make([]byte, 64<<10)
		for err == nil {
			var n int
			n, err = io.ReadFull(r, piece)
			got += n
			time.Sleep(time.Second)
		}
		if got < len(long) {
			t.Fatalf("%d of %d bytes came: %v, %v", got, len(long), err, tab.Why())
		}
		reply(json.RawMessage("3"), `{"late":true}`)
		conn.CloseRead(t.Context())
		if o := <-run; o.err != nil || string(o.result) != `{"late":true}` {
			t.Errorf("after %v: %s, %v", o.took, o.result, o.err)
		}
	})
}

// C13: the caller that leaves does not wait for a tab that reads nothing.
func TestCancelIsPromptAlsoWhenTheTabIsDeaf(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{})
		f.StopReading()
		for range 3 { // the first one's message is being written, the others wait
			ctx, leave := context.WithCancel(t.Context())
			c := later(func() (json.RawMessage, error) { return tab.Call(ctx, "get_cells", nil, nil) })
			synctest.Wait()
			leave()
			if o := <-c; !errors.Is(o.err, context.Canceled) || o.took != 0 {
				t.Errorf("after %v: %v", o.took, o.err)
			}
		}
	})
}

// Tab-protocol section 1: close code 1001 is a page that was closed or navigated away; the words say which kind of end it was.
func TestEndOfATabIsPutIntoWords(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*tabtest.FarTab)
		want string
	}{
		"closed":    {(*tabtest.FarTab).Close, "1001"},
		"cut":       {(*tabtest.FarTab).Drop, "broke"},
		"half-open": {(*tabtest.FarTab).StopReading, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				f, tab := d.connect(tabtest.Knobs{})
				c.end(f)
				<-tab.Gone()
				synctest.Wait()
				if got := d.Status().Dropped; !strings.Contains(got, c.want) {
					t.Errorf("the drop is told as %q, want %q in it", got, c.want)
				}
			})
		})
	}
}
