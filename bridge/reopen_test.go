package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

type needed struct {
	tab  *bridge.Tab
	err  error
	took time.Duration
}

// need asks for the tab as a tool does.
func (d *desk) need(ctx context.Context) <-chan needed {
	c := make(chan needed, 1)
	begun := time.Now()
	go func() {
		tab, err := d.Tab(ctx, nil)
		c <- needed{tab, err, time.Since(begun)}
	}()
	synctest.Wait()
	return c
}

// lose opens a notebook, has the user accept, and drops the tab.
func (d *desk) lose(notebook string) {
	d.t.Helper()
	f := d.openWith(notebook)
	f.Drop()
	synctest.Wait()
}

// openWith opens a notebook and returns the tab the user accepted.
func (d *desk) openWith(notebook string) *tabtest.FarTab {
	d.t.Helper()
	ask := bridge.Ask{}
	if notebook != "" {
		ask.Link = link(d.t, notebook)
	}
	c := d.opening(d.t.Context(), ask)
	f := d.dial(tabtest.Knobs{})
	if o := <-c; o.err != nil || !o.Ready {
		d.t.Fatalf("opened %+v, %v", o.Opened, o.err)
	}
	return f
}

// L6: exactly the link that this process opened, as often as it takes.
func TestDroppedTabIsReopenedWhenAToolNeedsIt(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.lose(bookA + "?authuser=1#scrollTo=aB-3")
		time.Sleep(time.Hour)
		if s := d.Status(); s.State != "disconnected" || s.Dropped == "" || s.Requested != bookA+"?authuser=1#scrollTo=aB-3" || s.Notebook != "" {
			t.Errorf("status %+v", s)
		}
		if len(d.links()) != 1 {
			t.Fatal("it was re-opened although nobody needs it")
		}
		d.accepts(5*time.Second, tabtest.Knobs{})
		n := <-d.need(t.Context())
		if n.err != nil || n.tab == nil {
			t.Fatal(n.err)
		}
		within(t, "the re-opening", n.took, 5*time.Second, 6*time.Second)
		works(t, n.tab)
		if l := d.links(); len(l) != 2 || l[0] != l[1] {
			t.Errorf("it was re-opened with another link: %q", l)
		}
	})
}

// L8: one opening, five answers.
func TestReopeningIsShared(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.lose(bookA)
		d.accepts(10*time.Second, tabtest.Knobs{})
		var all []<-chan needed
		for range 5 {
			all = append(all, d.need(t.Context()))
		}
		opener := d.opening(t.Context(), bridge.Ask{}) // the agent may ask too
		for _, c := range all {
			n := <-c
			if n.err != nil {
				t.Fatal(n.err)
			}
			works(t, n.tab)
		}
		if o := <-opener; !o.Ready {
			t.Errorf("opened %+v, %v", o.Opened, o.err)
		}
		d.wants(bookA, 2)
	})
}

// L8: the very moment of the drop is no gap.
func TestTabIsNeverOneThatIsGone(t *testing.T) {
	for range 50 {
		inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
			f := d.openWith(bookA)
			old := d.Live()
			d.accepts(time.Second, tabtest.Knobs{})
			go f.Drop()
			<-old.Gone()
			n := <-d.need(t.Context())
			if n.err != nil || n.tab == old {
				t.Errorf("got the tab that is gone: %v, %v", n.tab == old, n.err)
			}
		})
	}
}

// L8: back-off after a failed one, the same for one caller and for many, and then one opening again.
func TestFailedReopeningBacksOff(t *testing.T) {
	pauses := map[int][]time.Duration{}
	for _, callers := range []int{1, 5} {
		inBubble(t, bridge.Options{UITimeout: 30 * time.Second}, func(t *testing.T, d *desk) {
			d.lose(bookA)
			opened := 1
			for range 3 {
				var all []<-chan needed
				for range callers {
					all = append(all, d.need(t.Context()))
				}
				opened++
				for _, c := range all {
					n := <-c
					var none *bridge.NoTabError
					if !errors.As(n.err, &none) || n.took != 30*time.Second {
						t.Fatalf("after %v: %v", n.took, n.err)
					}
				}
				d.wants("", opened)
				failed := time.Now()
				for {
					c := d.need(t.Context())
					select {
					case n := <-c: // at once
						var none *bridge.NoTabError
						if !errors.As(n.err, &none) || n.took != 0 || none.Opening == nil || none.Opening.Manual == "" {
							t.Fatalf("during the back-off, after %v: %+v", n.took, n.err)
						}
						time.Sleep(time.Second)
						continue
					default:
						<-c // this caller's opening fails too
						opened++
					}
					break
				}
				pauses[callers] = append(pauses[callers], time.Since(failed)-30*time.Second)
				d.wants("", opened)
				time.Sleep(24 * time.Hour)
			}
			// A tab that gets through ends the back-off.
			d.dial(tabtest.Knobs{}).Drop()
			synctest.Wait()
			d.accepts(time.Second, tabtest.Knobs{})
			if n := <-d.need(t.Context()); n.err != nil {
				t.Errorf("after a good tab: %v", n.err)
			}
		})
	}
	for i, one := range pauses[1] {
		if five := pauses[5][i]; one < 10*time.Second || one > 30*time.Minute || one != five {
			t.Errorf("back-off %d: %v for one caller, %v for five", i, one, five)
		}
	}
	if p := pauses[1]; p[1] < p[0] {
		t.Errorf("the back-off shrinks: %v", p)
	}
}

// L8: a tab that comes and leaves before it is ready has failed too: not every tool that is called opens one more.
func TestReopenedTabThatLeavesBacksOff(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.lose(bookA)
		d.accepts(time.Second, tabtest.Knobs{DropAtMessage: 1})
		for i := range 10 {
			n := <-d.need(t.Context())
			var none *bridge.NoTabError
			if !errors.As(n.err, &none) || n.took > time.Second {
				t.Fatalf("call %d, after %v: %v", i, n.took, n.err)
			}
		}
		d.wants("", 2)
		// The user reloads that page: its handshake is waited for.
		p := d.page(nil)
		tool := d.need(t.Context())
		p.say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		synctest.Wait()
		p.say(`{"jsonrpc":"2.0","id":2,"result":` + someTools + `}`)
		if n := <-tool; n.err != nil {
			t.Errorf("after %v: %v", n.took, n.err)
		}
		d.wants(bookA, 2)
	})
}

// L8: the opener is never held back.
func TestOpenerIgnoresTheBackOff(t *testing.T) {
	inBubble(t, bridge.Options{UITimeout: time.Second}, func(t *testing.T, d *desk) {
		d.lose(bookA)
		<-d.need(t.Context())
		c := d.opening(t.Context(), bridge.Ask{})
		d.dial(tabtest.Knobs{})
		if o := <-c; !o.Ready {
			t.Errorf("opened %+v, %v", o.Opened, o.err)
		}
		d.wants(bookA, 2)
	})
}

// L8: a page that the user reloaded and that is in its handshake is the tab that is needed.
func TestTabInItsHandshakeIsWaitedFor(t *testing.T) {
	for _, fails := range []bool{false, true} {
		inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
			d.lose(bookA)
			p := d.page(nil)
			tool, opener := d.need(t.Context()), d.opening(t.Context(), bridge.Ask{Link: link(t, bookA)})
			time.Sleep(3 * time.Second)
			if fails {
				p.conn.CloseNow()
				if n := <-tool; n.err == nil || n.took != 3*time.Second {
					t.Errorf("after %v: %v", n.took, n.err)
				}
				if o := <-opener; o.err != nil || o.Ready {
					t.Errorf("opened %+v, %v", o.Opened, o.err)
				}
				d.accepts(time.Second, tabtest.Knobs{})
				if n := <-d.need(t.Context()); n.err != nil {
					t.Error(n.err)
				}
				d.wants(bookA, 2)
				return
			}
			p.say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			synctest.Wait() // the second is asked when the first is answered
			p.say(`{"jsonrpc":"2.0","id":2,"result":` + someTools + `}`)
			if n := <-tool; n.err != nil || n.took != 3*time.Second {
				t.Errorf("after %v: %v", n.took, n.err)
			}
			if o := <-opener; o.err != nil || !o.Ready {
				t.Errorf("opened %+v, %v", o.Opened, o.err)
			}
			d.wants(bookA, 1)
		})
	}
}

// L8: a caller that leaves takes nothing with it.
func TestCallerThatLeavesKeepsTheReopening(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.lose(bookA)
		ctx, leave := context.WithCancel(t.Context())
		first := d.need(ctx)
		leave()
		if n := <-first; !errors.Is(n.err, context.Canceled) {
			t.Errorf("the one that left: %v", n.err)
		}
		second := d.need(t.Context())
		d.dial(tabtest.Knobs{})
		if n := <-second; n.err != nil {
			t.Error(n.err)
		}
		d.wants(bookA, 2)
	})
}

// Interface, --auto-reopen=false
func TestReopeningCanBeSwitchedOff(t *testing.T) {
	inBubble(t, bridge.Options{NoReopen: true}, func(t *testing.T, d *desk) {
		d.lose(bookA)
		n := <-d.need(t.Context())
		var none *bridge.NoTabError
		if !errors.As(n.err, &none) || n.took != 0 || none.Dropped == "" {
			t.Errorf("after %v: %v", n.took, n.err)
		}
		d.wants("", 1)
		// The opener is the user's own wish.
		c := d.opening(t.Context(), bridge.Ask{})
		waits := d.need(t.Context()) // there is an opening: it is waited for
		d.dial(tabtest.Knobs{})
		if o := <-c; !o.Ready || o.Notebook != bookA {
			t.Errorf("opened %+v, %v", o.Opened, o.err)
		}
		if n := <-waits; n.err != nil {
			t.Errorf("the tool that came meanwhile: %v", n.err)
		}
		d.wants(bookA, 2)
	})
}

// L6: a notebook of an earlier process is named, not opened.
func TestEarlierNotebookIsOnlyNamed(t *testing.T) {
	inBubble(t, bridge.Options{Previous: *link(t, bookA)}, func(t *testing.T, d *desk) {
		n := <-d.need(t.Context())
		var none *bridge.NoTabError
		if !errors.As(n.err, &none) || none.Previous != bookA || !strings.Contains(n.err.Error(), bookA) || n.took != 0 {
			t.Errorf("after %v: %v", n.took, n.err)
		}
		if s := d.Status(); s.Previous != bookA || s.Requested != "" || s.Notebook != "" {
			t.Errorf("status %+v", s)
		}
		d.wants("", 0)
		// Its open page's link still works.
		f := d.dial(tabtest.Knobs{})
		if n := <-d.need(t.Context()); n.err != nil {
			t.Fatal(n.err)
		}
		f.Drop()
		synctest.Wait()
		if n := <-d.need(t.Context()); n.err == nil || len(d.links()) != 0 {
			t.Errorf("it was re-opened although this process never opened it: %v, %q", n.err, d.links())
		} else if !strings.Contains(n.err.Error(), bookA) {
			t.Errorf("the drop hides which notebook it was: %v", n.err)
		}
	})
}

// L6: no tab at all, and nothing known.
func TestWithoutATabNothingIsOpenedByItself(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		n := <-d.need(t.Context())
		var none *bridge.NoTabError
		if !errors.As(n.err, &none) || none.Previous != "" || none.Dropped != "" || none.Opening != nil {
			t.Errorf("%+v", n.err)
		}
		var missing *bridge.NoTabError
		if err := d.Missing(); !errors.As(err, &missing) {
			t.Errorf("missing: %v", err)
		}
		d.wants("", 0)
		d.connect(tabtest.Knobs{})
		if err := d.Missing(); err != nil {
			t.Errorf("with a tab: %v", err)
		}
	})
}

// L6: a scratch notebook comes back blank, and the opener says so.
func TestReopenedScratchNotebookIsSaidToBeBlank(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.lose("")
		d.accepts(time.Second, tabtest.Knobs{})
		o := d.open(bridge.Ask{})
		if !o.Ready || !strings.Contains(o.Note, "blank") && !strings.Contains(o.Note, "new") {
			t.Errorf("opened %+v", o)
		}
	})
}

// L13: a port that cannot be had is told by every use, and tried again.
func TestPortThatCannotBeHadIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n tabtest.Net
		taken := true
		var asked []int
		b := bridge.New(bridge.Options{Identity: bridge.NewIdentity(49152), Pinned: true, Listen: func(port int) ([]net.Listener, error) {
			asked = append(asked, port)
			if taken {
				return nil, &bridge.PortError{Port: port, Err: errors.New("taken")}
			}
			return []net.Listener{n.Listen()}, nil
		}})
		t.Cleanup(b.Close)
		var port *bridge.PortError
		if err := b.Start(); !errors.As(err, &port) || port.Port != 49152 {
			t.Errorf("start: %v", err)
		}
		if _, err := b.Tab(t.Context(), nil); !errors.As(err, &port) {
			t.Errorf("tab: %v", err)
		}
		if _, err := b.Open(t.Context(), bridge.Ask{}); !errors.As(err, &port) {
			t.Errorf("open: %v", err)
		}
		if s := b.Status(); !errors.As(s.Listening, &port) {
			t.Errorf("status %+v", s)
		}
		taken = false
		if _, err := b.Tab(t.Context(), nil); errors.As(err, &port) {
			t.Errorf("tab, once it is free: %v", err)
		}
		if s := b.Status(); s.Listening != nil || s.Port != 49152 {
			t.Errorf("status %+v", s)
		}
		for _, p := range asked {
			if p != 49152 {
				t.Errorf("port %d was tried although 49152 is pinned", p)
			}
		}
	})
}

// L13: a busy saved port is normal.
func TestSavedPortThatIsTakenIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n tabtest.Net
		b := bridge.New(bridge.Options{Identity: bridge.NewIdentity(4242), Listen: func(port int) ([]net.Listener, error) {
			if port == 4242 {
				return nil, &bridge.PortError{Port: port, Err: errors.New("taken")}
			}
			return []net.Listener{n.Listen()}, nil
		}})
		t.Cleanup(b.Close)
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		id, _ := b.Identity()
		if s := b.Status(); s.Port != 49152 || id.Port != 49152 || s.Listening != nil {
			t.Errorf("status %+v, identity on %d", s, id.Port)
		}
	})
}

// A call that cannot be right opens no browser for it.
func TestWrongCallOpensNoBrowser(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		a.lose(bookA)
		for tool, args := range map[string]string{"get_cells": `{"cellIndexStart":"two"}`, "update_cell": `{"cellId":"x"}`, "add_code_cell": `{"code":"1","frob":2}`} {
			if r := a.call(tool, args); !r.IsError || strings.Contains(r.text(), "no Colab tab") {
				t.Errorf("%s: %+v", tool, r)
			}
		}
		if l := a.links(); len(l) != 1 {
			t.Errorf("%d links were opened, want the first alone", len(l))
		}
	})
}

// A tool of the tab that says nothing of its parameters takes anything, also
// when the tab has to be opened for it.
func TestToolOfUnknownParametersIsReopenedFor(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		odd := tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("odd", "")}}
		c := a.opening(t.Context(), bridge.Ask{Link: link(t, bookA)})
		tab := a.dial(odd)
		if o := <-c; o.err != nil || !o.Ready {
			t.Fatalf("%+v", o)
		}
		tab.Drop()
		synctest.Wait() // the bridge sees it too
		a.accepts(time.Second, odd)
		a.call("odd", `{"anything":1}`)
		if l := a.links(); len(l) != 2 {
			t.Errorf("%d links were opened, want 2", len(l))
		}
	})
}
