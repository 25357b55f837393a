package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

func link(t *testing.T, s string) *bridge.Link {
	t.Helper()
	l, err := bridge.ParseLink(s)
	if err != nil {
		t.Fatal(err)
	}
	return &l
}

const (
	bookA = "https://colab.research.google.com/drive/1AbCdEfGhIjKlMnOpQrStUvWxYz012345"
	bookB = "https://colab.research.google.com/drive/1BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
)

// open opens and fails the test on an error.
func (d *desk) open(ask bridge.Ask) bridge.Opened {
	d.t.Helper()
	o, err := d.Open(d.t.Context(), ask)
	if err != nil {
		d.t.Fatal(err)
	}
	return o
}

type opened struct {
	bridge.Opened
	err error
}

// opening opens beside the test.
func (d *desk) opening(ctx context.Context, ask bridge.Ask) <-chan opened {
	c := make(chan opened, 1)
	go func() {
		o, err := d.Open(ctx, ask)
		c <- opened{o, err}
	}()
	synctest.Wait()
	return c
}

// wants checks what is connected and how often the browser was opened.
func (d *desk) wants(connected string, links int) {
	d.t.Helper()
	synctest.Wait()
	s := d.Status()
	if got := s.Notebook; got != connected || s.Connected != (connected != "") {
		d.t.Errorf("connected to %q, want %q: %+v", got, connected, s)
	}
	if got := d.links(); len(got) != links {
		d.t.Errorf("the browser was given %d links, want %d: %q", len(got), links, got)
	}
}

// Interface, open_colab_browser_connection
func TestOpenerWaitsForTheUser(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.accepts(7*time.Second, tabtest.Knobs{})
		var said []time.Duration
		o := d.open(bridge.Ask{Link: link(t, bookA), Tell: func(waited time.Duration, what string) {
			said = append(said, waited)
			if what == "" {
				t.Error("the wait is told without words")
			}
		}})
		if !o.Ready || o.Phase != "ready" || o.Notebook != bookA || o.Manual != "" || len(o.Causes) != 0 {
			t.Errorf("opened %+v", o)
		}
		within(t, "the opener", o.Waited, 7*time.Second, 7100*time.Millisecond)
		if len(said) == 0 || said[0] > 10*time.Second {
			t.Errorf("the wait was told at %v", said)
		}
		d.wants(bookA, 1)
		if got := d.links()[0]; !strings.HasPrefix(got, bookA) || !strings.Contains(got, "mcpProxyToken="+d.token()) {
			t.Errorf("the browser was given another link than the notebook's")
		}
		// A repeat is answered at once.
		if o := d.open(bridge.Ask{Link: link(t, bookA)}); !o.Ready || o.Waited != 0 {
			t.Errorf("a repeat: %+v", o)
		}
		d.wants(bookA, 1)
	})
}

// L1
func TestWaitsThatTimedOutHurtNoLaterTab(t *testing.T) {
	inBubble(t, bridge.Options{UITimeout: 200 * time.Millisecond}, func(t *testing.T, d *desk) {
		for range 3 {
			o := d.open(bridge.Ask{})
			if o.Ready || o.Phase != "opening" {
				t.Fatalf("opened %+v", o)
			}
			within(t, "the wait", o.Waited, 200*time.Millisecond, 300*time.Millisecond)
			if o.Manual != d.link() {
				t.Error("the link to be opened by hand is not the one that lets a tab in")
			}
		}
		d.wants("", 1) // a repeat opens no second tab
		_, tab := d.connect(tabtest.Knobs{})
		works(t, tab)
		if o := d.open(bridge.Ask{}); !o.Ready {
			t.Errorf("opened %+v", o)
		}
	})
}

// C12: the example.
func TestCancelledOpenerLetsTheTabInLater(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.accepts(2*time.Second, tabtest.Knobs{})
		ctx, leave := context.WithCancel(t.Context())
		c := d.opening(ctx, bridge.Ask{})
		time.Sleep(time.Second)
		leave()
		if o := <-c; !errors.Is(o.err, context.Canceled) {
			t.Errorf("cancelled: %v", o.err)
		}
		if s := d.Status(); s.State != "opening" {
			t.Errorf("state %s after the cancel", s.State)
		}
		time.Sleep(2 * time.Second)
		d.wants(bridge.ScratchLink().URL(), 1)
	})
}

// L8, C12: callers share one opening.
func TestCallersShareOneOpening(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.accepts(30*time.Second, tabtest.Knobs{})
		var all []<-chan opened
		for i := range 5 {
			ask := bridge.Ask{Link: link(t, bookA)}
			if i%2 == 1 {
				ask.Link = nil
			}
			all = append(all, d.opening(t.Context(), ask))
			time.Sleep(time.Second)
		}
		for _, c := range all {
			if o := <-c; o.err != nil || !o.Ready || o.Notebook != bookA {
				t.Errorf("opened %+v, %v", o.Opened, o.err)
			}
		}
		d.wants(bookA, 1)
	})
}

// Interface: force opens again although a tab is waiting.
func TestForceOpensASecondTabOnly(t *testing.T) {
	inBubble(t, bridge.Options{UITimeout: time.Second}, func(t *testing.T, d *desk) {
		d.open(bridge.Ask{Link: link(t, bookA)})
		d.open(bridge.Ask{Link: link(t, bookA), Force: true})
		d.wants("", 2)
		if l := d.links(); l[0] != l[1] {
			t.Error("the first tab's link was made useless")
		}
	})
}

// L9
func TestSwitchRetiresTheOldTab(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.accepts(time.Second, tabtest.Knobs{})
		d.open(bridge.Ask{Link: link(t, bookA)})
		old := d.link()
		first := d.Live()
		c := d.opening(t.Context(), bridge.Ask{Link: link(t, bookB)})
		select {
		case <-first.Gone():
		default:
			t.Error("the old tab lives on")
		}
		if s := d.Status(); s.Connected || s.Notebook != "" || s.Requested != bookB {
			t.Errorf("status while opening: %+v", s)
		}
		if _, resp, _ := tabtest.RawOf(d.net, old).Dial(t.Context()); resp == nil || resp.StatusCode != 403 {
			t.Errorf("the old tab's redial was answered %v", resp)
		}
		if o := <-c; o.err != nil || !o.Ready || o.Notebook != bookB {
			t.Fatalf("opened %+v, %v", o.Opened, o.err)
		}
		d.wants(bookB, 2)
		l := d.links()
		if before, _, _ := strings.Cut(l[0], "#"); strings.HasPrefix(l[1], before) {
			t.Error("nothing before the # tells the two links apart")
		}
	})
}

// L9: a tab that is not ready yet is retired too, and its end is not that of the new opening.
func TestSwitchRetiresATabInItsHandshake(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		a := d.opening(t.Context(), bridge.Ask{Link: link(t, bookA)})
		hanging := d.dial(tabtest.Knobs{NoInitialize: true})
		d.accepts(5*time.Second, tabtest.Knobs{})
		b := d.opening(t.Context(), bridge.Ask{Link: link(t, bookB)})
		if code, _ := hanging.CloseCode(); code != bridge.StatusMoved {
			t.Errorf("the hanging tab was closed with %d", code)
		}
		if o := <-b; o.err != nil || !o.Ready || o.Notebook != bookB {
			t.Errorf("opened %+v, %v", o.Opened, o.err)
		}
		// Who still waits for the first is told what there is instead.
		if o := <-a; o.err == nil && o.Ready && o.Notebook != bookB {
			t.Errorf("the first caller was told %+v", o.Opened)
		}
		d.wants(bookB, 2)
	})
}

// L9: who waits for a notebook that another call has replaced is told so, and given no link that would bring the old one
// in with the new one's token.
func TestReplacedOpeningIsSaidToBe(t *testing.T) {
	inBubble(t, bridge.Options{UITimeout: 5 * time.Second}, func(t *testing.T, d *desk) {
		a := d.opening(t.Context(), bridge.Ask{Link: link(t, bookA)})
		time.Sleep(time.Second)
		b := d.opening(t.Context(), bridge.Ask{Link: link(t, bookB)})
		o := <-a
		if o.err != nil || o.Ready || o.Notebook != bookB || !strings.HasPrefix(o.Manual, bookB) || !strings.Contains(o.Note, bookA) {
			t.Errorf("in vain: %+v, %v", o.Opened, o.err)
		}
		if o := <-b; o.err != nil || o.Notebook != bookB || o.Note != "" {
			t.Errorf("the new one, in vain: %+v, %v", o.Opened, o.err)
		}
		c := d.opening(t.Context(), bridge.Ask{Link: link(t, bookB)})
		d.accepts(time.Second, tabtest.Knobs{})
		e := d.opening(t.Context(), bridge.Ask{Link: link(t, bookA)})
		if o := <-c; o.err != nil || !o.Ready || o.Notebook != bookA || !strings.Contains(o.Note, bookB) {
			t.Errorf("replaced: %+v, %v", o.Opened, o.err)
		}
		if o := <-e; o.err != nil || !o.Ready || o.Notebook != bookA || o.Note != "" {
			t.Errorf("the new one: %+v, %v", o.Opened, o.err)
		}
	})
}

// L9: an opening that is replaced while the old tab is retired for it does not open the new one's link once more.
func TestReplacedOpeningOpensNoTab(t *testing.T) {
	inBubble(t, bridge.Options{UITimeout: 5 * time.Second}, func(t *testing.T, d *desk) {
		f, _ := d.connect(tabtest.Knobs{})
		f.StopReading() // it is waited for
		a := d.opening(t.Context(), bridge.Ask{Link: link(t, bookA)})
		b := d.opening(t.Context(), bridge.Ask{Link: link(t, bookB)})
		<-a
		<-b
		if l := d.links(); len(l) != 1 || !strings.HasPrefix(l[0], bookB) {
			t.Errorf("the browser was given %q", l)
		}
	})
}

// Interface: force opens anew what is connected, with or without naming it.
func TestForceOpensAnewWhatIsConnected(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, _ := d.connect(tabtest.Knobs{}) // a tab of which nobody knows what it shows
		if o := d.open(bridge.Ask{}); !o.Ready || o.Notebook != "" {
			t.Errorf("opened %+v", o)
		}
		d.accepts(time.Second, tabtest.Knobs{})
		if o := d.open(bridge.Ask{Force: true}); !o.Ready || o.Notebook != bridge.ScratchLink().URL() {
			t.Errorf("opened %+v", o)
		}
		<-f.Gone()
		d.open(bridge.Ask{Link: link(t, bookA)})
		before := d.Live()
		if o := d.open(bridge.Ask{Force: true}); !o.Ready || o.Notebook != bookA || d.Live() == before {
			t.Errorf("opened %+v", o)
		}
		if why := before.Why(); why == nil || why.Error() != "the notebook was opened anew" {
			t.Errorf("the old tab's end is %v", why)
		}
		d.wants(bookA, 3)
	})
}

// L9: a tab that nobody opened may show anything, so it does not stand for what is asked for.
func TestUnknownTabIsNoAnswerToALink(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, _ := d.connect(tabtest.Knobs{})
		if o := d.open(bridge.Ask{}); !o.Ready {
			t.Errorf("any notebook: %+v", o)
		}
		if len(d.links()) != 0 {
			t.Error("a browser was opened beside the tab")
		}
		d.accepts(time.Second, tabtest.Knobs{})
		if o := d.open(bridge.Ask{Link: link(t, bookA)}); !o.Ready || o.Notebook != bookA {
			t.Errorf("opened %+v", o)
		}
		<-f.Gone()
		d.wants(bookA, 1)
	})
}

// Interface: a switch is busy while something runs, unless forced.
func TestSwitchIsBusyWhileSomethingRuns(t *testing.T) {
	since := time.Time{}
	job := false
	o := bridge.Options{Busy: func() (string, time.Time, bool) { return "run_notebook", since, job }}
	inBubble(t, o, func(t *testing.T, d *desk) {
		d.accepts(time.Second, tabtest.Knobs{})
		d.open(bridge.Ask{Link: link(t, bookA)})
		token := d.token()
		var busy *bridge.BusyError

		since, job = time.Now(), true
		time.Sleep(time.Minute)
		if _, err := d.Open(t.Context(), bridge.Ask{Link: link(t, bookB)}); !errors.As(err, &busy) || busy.Op != "run_notebook" || !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("a job runs: %v", err)
		}
		job = false

		turn, err := d.Gate().Enter(t.Context(), "run_code", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Open(t.Context(), bridge.Ask{Link: link(t, bookB)}); !errors.As(err, &busy) || busy.Op != "run_code" {
			t.Errorf("a turn is taken: %v", err)
		}
		if s := d.Status(); s.Running != "run_code" || d.token() != token {
			t.Errorf("the refused switch changed something: %+v", s)
		}
		if o := d.open(bridge.Ask{Link: link(t, bookA)}); !o.Ready {
			t.Errorf("the connected notebook: %+v", o)
		}
		d.wants(bookA, 1)
		if o := d.open(bridge.Ask{Link: link(t, bookB), Force: true}); !o.Ready || o.Notebook != bookB {
			t.Errorf("forced: %+v", o)
		}
		d.wants(bookB, 2)
		turn.Leave()
	})
}

// L10
func TestFailedWaitListsItsCausesInOrder(t *testing.T) {
	inBubble(t, bridge.Options{UITimeout: 5 * time.Second}, func(t *testing.T, d *desk) {
		c := d.opening(t.Context(), bridge.Ask{})
		id, _ := d.Identity()
		for range 3 {
			conn, err := d.net.Dial(t.Context(), "tcp", fmt.Sprintf("localhost:%d", id.Port))
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		d.knock(func(r *tabtest.Raw, token string) { r.Path = "/?access_token=stale" })
		o := <-c
		if o.err != nil || o.Ready {
			t.Fatalf("opened %+v, %v", o.Opened, o.err)
		}
		all := strings.ToLower(strings.Join(o.Causes, "\n"))
		at := 0
		for _, word := range []string{"dialog", "permission (", "blocked once", "browser on another machine|another browser", "signed in"} {
			i := -1
			for alt := range strings.SplitSeq(word, "|") {
				i = max(i, strings.Index(all, alt))
			}
			if i < at {
				t.Errorf("%q is missing or out of order in:\n%s", word, all)
			}
			at = max(at, i)
		}
		if !strings.Contains(all, "3 connection") || !strings.Contains(all, "1 connection(s) came with an old token") {
			t.Errorf("what came is not counted:\n%s", all)
		}
		if n := d.Status().Blocked; n != 3 {
			t.Errorf("%d connections without a byte", n)
		}
		if strings.Contains(all, strings.ToLower(d.token())) {
			t.Error("a cause holds the token")
		}
		d.connect(tabtest.Knobs{})
		if n := d.Status().Blocked; n != 0 {
			t.Errorf("%d blocked after a tab got through", n)
		}
	})
}

// O1: a browser that cannot be started is no failure.
func TestBrowserThatCannotStartLeavesTheLink(t *testing.T) {
	failing := func(context.Context, string) error { return bridge.ErrNoDisplay }
	inBubble(t, bridge.Options{Browse: failing}, func(t *testing.T, d *desk) {
		o := d.open(bridge.Ask{})
		if o.Ready || o.Manual != d.link() || o.Waited != 0 {
			t.Fatalf("opened %+v", o)
		}
		id, _ := d.Identity()
		if !strings.Contains(o.Causes[0], "DISPLAY") || !strings.Contains(o.Causes[0], fmt.Sprintf("ssh -L %d:localhost:%d", id.Port, id.Port)) {
			t.Errorf("the first cause is %q", o.Causes[0])
		}
		// The repeat waits for the user's hand.
		c := d.opening(t.Context(), bridge.Ask{})
		time.Sleep(20 * time.Second)
		d.dial(tabtest.Knobs{})
		if o := <-c; o.err != nil || !o.Ready || o.Waited != 20*time.Second {
			t.Errorf("opened %+v, %v", o.Opened, o.err)
		}
	})
}

// A page that came and went has to be opened again, and says so.
func TestTabThatLeavesBeforeItIsReadyIsOpenedAnew(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		c := d.opening(t.Context(), bridge.Ask{})
		f := d.dial(tabtest.Knobs{NoInitialize: true})
		time.Sleep(time.Second)
		f.Close()
		o := <-c
		if o.err != nil || o.Ready || o.Waited != time.Second || !strings.Contains(strings.Join(o.Causes, "\n"), "left before it was ready") {
			t.Fatalf("opened %+v, %v", o.Opened, o.err)
		}
		d.accepts(time.Second, tabtest.Knobs{})
		if o := d.open(bridge.Ask{}); !o.Ready {
			t.Errorf("opened %+v", o)
		}
		d.wants(bridge.ScratchLink().URL(), 2)
	})
}

// Interface, OnIdentity: what outlives the process is handed out, in order.
func TestIdentityIsHandedOut(t *testing.T) {
	type at struct {
		token, notebook string
		port            int
	}
	var got []at
	o := bridge.Options{OnIdentity: func(id bridge.Identity, l bridge.Link) { got = append(got, at{id.Token, l.URL(), id.Port}) }}
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, o)
		d.accepts(time.Second, tabtest.Knobs{})
		d.open(bridge.Ask{Link: link(t, bookA)})
		first := d.token()
		d.open(bridge.Ask{Link: link(t, bookB)})
		d.Rotate()
		synctest.Wait()
		id, _ := d.Identity()
		n := len(got)
		if n < 4 {
			t.Fatalf("told %+v", got)
		}
		if got[0].port != id.Port || got[n-3].token != first || got[n-3].notebook != bookA || got[n-2].notebook != bookB || got[n-2].token == first ||
			got[n-1].token != id.Token || got[n-1].notebook != bookB || got[n-1].port != id.Port {
			t.Errorf("told %+v", got)
		}
	})
}
