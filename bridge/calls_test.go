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

func call(t *testing.T, tab *bridge.Tab, tool, args string) <-chan outcome {
	t.Helper()
	c := later(func() (json.RawMessage, error) {
		var raw json.RawMessage
		if args != "" {
			raw = json.RawMessage(args)
		}
		return tab.Call(t.Context(), tool, raw, nil)
	})
	synctest.Wait()
	return c
}

// works checks that the tab answers a plain question with its own answer.
func works(t *testing.T, tab *bridge.Tab) {
	t.Helper()
	o := <-call(t, tab, bridge.GetCells, "")
	if o.err != nil || !strings.Contains(string(o.result), `"cells"`) {
		t.Errorf("get_cells: %s, %v", o.result, o.err)
	}
}

// C9: the result is the bytes the tab sent.
func TestAnswersPassUntouched(t *testing.T) {
	for _, result := range []string{
		`{"content":[{"type":"text","text":"a<b && c>d \u003c é \/"}],"z":1,"a":2}`,
		`{"structuredContent":{"n":9007199254740993,"x":1e400,"y":-0,"f":1.0,"dup":1,"dup":2}}`,
		`{"content":[{"type":"hologram","data":"base64url-_"}],"_meta":{}}`,
		`{}`,
	} {
		inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
			_, tab := d.connect(tabtest.Knobs{Answer: map[string]string{"get_cells": result}})
			if o := <-call(t, tab, "get_cells", `{}`); o.err != nil || string(o.result) != result {
				t.Errorf("%s came as %s, %v", result, o.result, o.err)
			}
		})
	}
}

// C9, C15: arguments reach the tab as they are; omitted ones stay omitted.
func TestArgumentsPassUntouched(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{Answer: map[string]string{"get_cells": `{}`}})
		const args = `{"cellIndexStart":9007199254740993, "x":"a<b"}`
		<-call(t, tab, "get_cells", args)
		<-call(t, tab, "get_cells", "")
		got := f.Calls("get_cells")
		if string(got[0].Args) != args || got[1].Args != nil {
			t.Errorf("the tab got %s and %s", got[0].Args, got[1].Args)
		}
	})
}

// Design idea 10: what the tab lacks is not sent to it.
func TestToolThatTheTabLacksIsNotSent(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{WithoutTools: []string{"delete_cell", "run_code_cell"}})
		var missing *bridge.MissingToolError
		if o := <-call(t, tab, "delete_cell", `{}`); !errors.As(o.err, &missing) || missing.Tool != "delete_cell" || len(missing.Live) != 5 {
			t.Errorf("call: %s, %v", o.result, o.err)
		}
		if _, err := tab.Run("run_code_cell", nil, nil); !errors.As(err, &missing) || missing.Tool != "run_code_cell" {
			t.Errorf("run: %v", err)
		}
		if err := tab.Needs("get_cells", "add_code_cell", "run_code_cell"); !errors.As(err, &missing) || missing.Tool != "run_code_cell" {
			t.Errorf("needs: %v", err)
		}
		if err := tab.Needs("get_cells", "add_code_cell"); err != nil {
			t.Errorf("needs: %v", err)
		}
		if m := methods(f); len(m) != 3 {
			t.Errorf("the tab got %q", m[3:])
		}
		f.Set(func(k *tabtest.Knobs) { k.WithoutTools = nil })
		f.ListChanged()
		time.Sleep(time.Second)
		synctest.Wait()
		if o := <-call(t, tab, "delete_cell", `{"cellId":"x"}`); o.err != nil {
			t.Errorf("once it is there: %v", o.err)
		}
	})
}

// C4: both ways in which a tab may refuse.
func TestRefusalsOfTheTab(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{Fail: map[string]string{"move_cell": "No cell was found with ID 'x'"}, Swallow: []string{"get_cells"}})
		if o := <-call(t, tab, "move_cell", `{}`); o.err != nil || !strings.Contains(string(o.result), `"isError":true`) {
			t.Errorf("an isError result came as %s, %v", o.result, o.err)
		}
		c := call(t, tab, "get_cells", "")
		f.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid arguments for get_cells","data":{}}}`, f.Calls("get_cells")[0].ID))
		var refused *bridge.RPCError
		if o := <-c; !errors.As(o.err, &refused) || refused.Code != -32602 || refused.Message != "Invalid arguments for get_cells" {
			t.Errorf("a JSON-RPC error came as %s, %v", o.result, o.err)
		}
		for object, message := range map[string]string{
			`{"code":1e99,"message":"busy"}`: "busy", `{"message":"busy"}`: "busy", `"busy"`: "busy",
			`{"code":1}`: "the tab answered an error without a message", `""`: "the tab answered an error without a message", `[1]`: "the tab answered an error without a message",
		} {
			c := call(t, tab, "get_cells", "")
			all := f.Calls("get_cells")
			f.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, all[len(all)-1].ID, object))
			if o := <-c; !errors.As(o.err, &refused) || refused.Message != message {
				t.Errorf("the error %s came as %s, %v", object, o.result, o.err)
			}
		}
	})
}

// C14
func TestUnansweredCallFailsAfterItsDeadline(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{Swallow: []string{"get_cells", "update_cell"}})
		for _, tool := range []string{"get_cells", "update_cell"} {
			o := <-call(t, tab, tool, `{}`)
			var silent *bridge.SilentError
			if !errors.As(o.err, &silent) || silent.Frozen || silent.Tool != tool {
				t.Fatalf("%s: %s, %v", tool, o.result, o.err)
			}
			within(t, tool, o.took, 30*time.Second, 32*time.Second)
		}
		if d.Live() != tab {
			t.Error("the tab was given up")
		}
		// Late answers to forgotten requests go nowhere.
		f.Set(func(k *tabtest.Knobs) { k.Swallow = nil })
		f.Release()
		works(t, tab)
	})
}

// C14: a run has no deadline.
func TestRunWaitsAsLongAsItTakes(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{})
		run := running(t, tab, "print start\nsleep 6h\nresult 42")
		for range 6 {
			time.Sleep(59 * time.Minute)
			pending(t, run, "the run")
			works(t, tab) // reads go beside it
		}
		if o := <-run; o.err != nil || !strings.Contains(string(o.result), "42") || o.took != 6*time.Hour {
			t.Errorf("after %v: %s, %v", o.took, o.result, o.err)
		}
	})
}

// L5
func TestFrozenPageIsToldFromASlowOne(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{})
		run := running(t, tab, "sleep 20\nresult done")
		f.Freeze()
		o := <-call(t, tab, "get_cells", "")
		var silent *bridge.SilentError
		if !errors.As(o.err, &silent) || !silent.Frozen {
			t.Fatalf("frozen: %s, %v", o.result, o.err)
		}
		within(t, "a call of a frozen page", o.took, 4*time.Second, 7*time.Second)
		time.Sleep(10 * time.Minute)
		pending(t, run, "the run")
		if d.Live() != tab {
			t.Fatalf("the frozen tab was given up: %v", tab.Why())
		}
		f.Thaw()
		if o := <-run; o.err != nil || !strings.Contains(string(o.result), "done") {
			t.Errorf("the run after the thaw: %s, %v", o.result, o.err)
		}
		works(t, tab)
	})
}

// L5: a page that thaws in time was only slow.
func TestPageThatThawsInTimeAnswers(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{})
		f.Freeze()
		c := call(t, tab, "get_cells", "")
		time.Sleep(4 * time.Second)
		pending(t, c, "the call")
		f.Thaw()
		if o := <-c; o.err != nil {
			t.Errorf("%s, %v", o.result, o.err)
		}
	})
}

// L5: an answer under way is no frozen page.
func TestSlowAnswerOfABusyPageIsWaitedFor(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{Delay: map[string]time.Duration{"get_cells": 25 * time.Second}})
		if o := <-call(t, tab, "get_cells", ""); o.err != nil || o.took != 25*time.Second {
			t.Errorf("after %v: %s, %v", o.took, o.result, o.err)
		}
	})
}

// L5: nor is one that is on its way, with the ping's answer behind it.
func TestLongAnswerOnItsWayIsWaitedFor(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		p := d.page(map[string]string{"initialize": `{}`, "tools/list": someTools})
		c := call(t, d.Live(), "get_cells", "")
		w, err := p.conn.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, `{"jsonrpc":"2.0","id":3,"result":{"text":"`)
		for range 20 {
			io.WriteString(w, strings.Repeat("x", 4<<10))
			time.Sleep(time.Second)
		}
		io.WriteString(w, `"}}`)
		w.Close()
		if o := <-c; o.err != nil || len(o.result) < 80<<10 {
			t.Errorf("after %v: %d bytes, %v", o.took, len(o.result), o.err)
		}
	})
}

// C13: cancel of a call that runs no code tells the tab, with the tab's id.
func TestCancelledCallIsForgottenOnBothSides(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{Swallow: []string{"get_cells"}})
		ctx, leave := context.WithCancel(t.Context())
		c := later(func() (json.RawMessage, error) { return tab.Call(ctx, "get_cells", nil, nil) })
		synctest.Wait()
		begun := time.Now()
		leave()
		if o := <-c; !errors.Is(o.err, context.Canceled) {
			t.Fatalf("%s, %v", o.result, o.err)
		}
		within(t, "the cancel", time.Since(begun), 0, 100*time.Millisecond)
		synctest.Wait()
		all := f.Received()
		last := all[len(all)-1]
		var note struct {
			Params struct{ RequestID json.RawMessage }
		}
		if err := json.Unmarshal(last.Raw, &note); err != nil {
			t.Fatal(err)
		}
		if last.Method != "notifications/cancelled" || string(note.Params.RequestID) != string(f.Calls("get_cells")[0].ID) {
			t.Errorf("the tab was told %s", last.Raw)
		}
		f.Set(func(k *tabtest.Knobs) { k.Swallow = nil })
		f.Release()
		works(t, tab)
	})
}

// L3
func TestDropInACallIsAnUnknownOutcome(t *testing.T) {
	for name, drop := range map[string]func(*tabtest.FarTab){
		"cut":        (*tabtest.FarTab).Drop,
		"going away": (*tabtest.FarTab).Close,
		"error":      func(f *tabtest.FarTab) { f.CloseWith(websocket.StatusInternalError, "boom") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				f, tab := d.connect(tabtest.Knobs{Swallow: []string{"update_cell", "get_cells"}})
				run := running(t, tab, "sleep 1h")
				edit, read := call(t, tab, "update_cell", `{}`), call(t, tab, "get_cells", "")
				begun := time.Now()
				drop(f)
				for tool, c := range map[string]<-chan outcome{"run_code_cell": run, "update_cell": edit} {
					o := <-c
					var unknown *bridge.UnknownError
					if !errors.As(o.err, &unknown) || unknown.Tool != tool {
						t.Errorf("%s: %s, %v", tool, o.result, o.err)
					}
				}
				// A read changed nothing, so it may be asked again.
				if o := <-read; !errors.Is(o.err, bridge.ErrTabGone) {
					t.Errorf("get_cells: %s, %v", o.result, o.err)
				}
				within(t, "the news", time.Since(begun), 0, time.Second)
				var unknown *bridge.UnknownError
				if o := <-call(t, tab, "update_cell", `{}`); !errors.Is(o.err, bridge.ErrTabGone) || errors.As(o.err, &unknown) {
					t.Errorf("a call that was never sent: %v", o.err)
				}
				next, again := d.connect(tabtest.Knobs{})
				works(t, again)
				for _, tool := range []string{"run_code_cell", "update_cell"} {
					if len(next.Calls(tool)) > 0 {
						t.Errorf("%s was replayed", tool)
					}
				}
			})
		})
	}
}

// L3: the example, and an answer that came just before counts.
func TestDropShortlyIntoARun(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{DropRunAfter: 100 * time.Millisecond})
		o := <-running(t, tab, "sleep 1m")
		var unknown *bridge.UnknownError
		if !errors.As(o.err, &unknown) {
			t.Errorf("%s, %v", o.result, o.err)
		}
		within(t, "the news", o.took, 100*time.Millisecond, time.Second)
	})
}

// C10, C16: the tab's progress reaches who asked, and nobody after the answer.
func TestProgressOfTheTabReachesItsCall(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{Progress: 3})
		var got []string
		if _, err := tab.Call(t.Context(), "get_cells", nil, func(p json.RawMessage) { got = append(got, string(p)) }); err != nil {
			t.Fatal(err)
		}
		id := f.Calls("get_cells")[0].ID
		if len(got) != 3 || got[2] != fmt.Sprintf(`{"progressToken":%s,"progress":3,"total":3}`, id) {
			t.Errorf("progress %q", got)
		}
		f.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":4}}`, id))
		synctest.Wait()
		if len(got) != 3 {
			t.Errorf("late progress was passed on: %q", got[3:])
		}
		works(t, tab) // asks for none
		for _, m := range f.Calls("get_cells")[1:] {
			if strings.Contains(string(m.Raw), "progressToken") {
				t.Errorf("nobody wants progress of %s", m.Raw)
			}
		}
	})
}

// C16
func TestLogOfTheTabIsHandedOn(t *testing.T) {
	logs := make(chan string, 10)
	inBubble(t, bridge.Options{OnLog: func(p json.RawMessage) { logs <- string(p) }}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{Logs: 2})
		works(t, tab)
		synctest.Wait()
		for i := range 2 {
			select {
			case got := <-logs:
				if want := fmt.Sprintf(`{"level":"info","data":"log %d"}`, i+1); got != want {
					t.Errorf("log %s, want %s", got, want)
				}
			default:
				t.Fatalf("%d logs came", i)
			}
		}
	})
}

// Tab-protocol section 2: what is asked at once is asked at once.
func TestCallsGoBesideEachOther(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{Delay: map[string]time.Duration{"get_cells": 10 * time.Second}})
		begun := time.Now()
		var all []<-chan outcome
		for range 50 {
			all = append(all, call(t, tab, "get_cells", ""))
		}
		for _, c := range all {
			if o := <-c; o.err != nil {
				t.Fatal(o.err)
			}
		}
		within(t, "fifty reads", time.Since(begun), 10*time.Second, 11*time.Second)
	})
}
