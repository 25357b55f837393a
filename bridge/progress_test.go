package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

type progress struct {
	at            time.Duration
	ProgressToken json.RawMessage
	Progress      float64
	Total         float64
	Message       string
}

// progressed are all progress notifications so far.
func (a *agent) progressed() []progress {
	a.t.Helper()
	var list []progress
	for _, f := range a.notes("notifications/progress") {
		p := progress{at: f.at}
		if err := json.Unmarshal(f.Params, &p); err != nil {
			a.t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// grows checks the rules for all progress of one call, from begun to the answer.
func grows(t *testing.T, list []progress, token string, begun, end time.Duration) {
	t.Helper()
	last, at := -1.0, begun
	for _, p := range list {
		if string(p.ProgressToken) != token {
			t.Errorf("token %s, want %s", p.ProgressToken, token)
		}
		if p.Progress <= last {
			t.Errorf("%v follows %v", p.Progress, last)
		}
		if p.at-at > 10*time.Second {
			t.Errorf("silence from %v to %v", at, p.at)
		}
		if p.at > end {
			t.Errorf("progress at %v, after the answer at %v", p.at, end)
		}
		last, at = p.Progress, p.at
	}
	if end-at > 10*time.Second {
		t.Errorf("silence from %v to the end at %v", at, end)
	}
}

// C10: the client's token in its type, strictly increasing, at least every 10 s, never after the answer.
func TestOpenerReportsProgress(t *testing.T) {
	for _, token := range []string{"7", `"seven"`, `"7"`, "0"} {
		t.Run(token, func(t *testing.T) {
			withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
				a.accepts(47*time.Second, tabtest.Knobs{})
				begun := time.Now()
				f := a.await(a.start("open_colab_browser_connection", "", token))
				time.Sleep(time.Minute)
				synctest.Wait()
				list := a.progressed()
				if len(list) < 4 || list[0].Message == "" {
					t.Errorf("progress %+v", list)
				}
				grows(t, list, token, 0, f.at)
				within(t, "the opener", f.at, 47*time.Second, time.Since(begun))
			})
		})
	}
}

// C10: only with the client's token.
func TestNobodyIsToldWithoutAToken(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		a.accepts(47*time.Second, tabtest.Knobs{Progress: 3})
		a.call("open_colab_browser_connection", "")
		a.call("get_cells", "")
		if l := a.progressed(); len(l) != 0 {
			t.Errorf("progress %+v", l)
		}
	})
}

// C10: never after a cancel.
func TestCancelEndsProgress(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		id := a.start("open_colab_browser_connection", "", "7")
		time.Sleep(20 * time.Second)
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		synctest.Wait()
		n := len(a.progressed())
		if n == 0 {
			t.Error("there was none before the cancel either")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if l := a.progressed(); len(l) != n {
			t.Errorf("progress after the cancel: %+v", l[n:])
		}
	})
}

// C10: a handler that goes on after the cancel, as that of a run does, tells nobody.
func TestHandlerThatOutlivesItsCancelIsMute(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		goOn := make(chan struct{})
		bridge.AddTool(a.box, &mcp.Tool{Name: "stubborn", Description: "Reports, whatever its caller does."}, func(_ context.Context, c *bridge.Call, _ struct{}) (*mcp.CallToolResult, error) {
			c.Progress.Say("begun")
			for range 60 {
				time.Sleep(time.Second)
				c.Progress.Say("still here")
			}
			close(goOn)
			return bridge.Answer(struct{}{})
		})
		id := a.start("stubborn", "", "7")
		time.Sleep(10500 * time.Millisecond)
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		<-goOn
		synctest.Wait()
		if n := len(a.progressed()); n != 11 {
			t.Errorf("%d reports, 11 of them before the cancel", n)
		}
	})
}

// C10: a silent handler is heard of at least every 10 s, whenever its last word was.
func TestSilenceIsBridged(t *testing.T) {
	for _, last := range []time.Duration{0, 100 * time.Millisecond, 3 * time.Second, 4100 * time.Millisecond, 7900 * time.Millisecond} {
		withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
			bridge.AddTool(a.box, &mcp.Tool{Name: "silent", Description: "Says one word."}, func(_ context.Context, c *bridge.Call, _ struct{}) (*mcp.CallToolResult, error) {
				time.Sleep(last)
				c.Progress.Report("one word", 3, 10)
				time.Sleep(45 * time.Second)
				return bridge.Answer(struct{}{})
			})
			f := a.await(a.start("silent", "", "7"))
			list := a.progressed()
			grows(t, list, "7", 0, f.at)
			if got := list[len(list)-1].Message; got != "one word" {
				t.Errorf("the last words became %q", got)
			}
		})
	}
}

// C10: numbers that do not grow are nudged.
func TestProgressNeverFallsBack(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		bridge.AddTool(a.box, &mcp.Tool{Name: "wild", Description: "Reports anything."}, func(_ context.Context, c *bridge.Call, _ struct{}) (*mcp.CallToolResult, error) {
			for _, at := range []float64{5, 5, 3, -1, 0, 1e15, 1e15, 1e15, 7} {
				c.Progress.Report("x", at, 10)
			}
			return bridge.Answer(struct{}{})
		})
		f := a.await(a.start("wild", "", "7"))
		list := a.progressed()
		if len(list) != 9 {
			t.Errorf("%d reports of 9", len(list))
		}
		grows(t, list, "7", 0, f.at)
	})
}

// C16: the tab's progress, under the client's token.
func TestProgressOfTheTabReachesTheAgent(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		far, _ := a.connect(tabtest.Knobs{Progress: 3})
		f := a.await(a.start("get_cells", "", `"mine"`))
		list := a.progressed()
		if len(list) != 3 || list[2].Progress != 3 || list[2].Total != 3 {
			t.Errorf("progress %+v", list)
		}
		grows(t, list, `"mine"`, 0, f.at)
		// Late and unknown progress of the tab is swallowed.
		for _, token := range []string{string(far.Calls("get_cells")[0].ID), "999", `"x"`, "null"} {
			far.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":9}}`, token))
		}
		synctest.Wait()
		if n := len(a.progressed()); n != 3 {
			t.Errorf("%d reports", n)
		}
	})
}
