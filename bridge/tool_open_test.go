package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// Interface, open_colab_browser_connection and colab_connection_status; S4
func TestOpenerAndStatusAnswerAsDocumented(t *testing.T) {
	withAgent(t, bridge.Options{UITimeout: 3 * time.Second}, func(t *testing.T, a *agent) {
		waiting := object[map[string]any](t, a.call("open_colab_browser_connection", fmt.Sprintf(`{"notebook_url":%q}`, bookA)))
		if waiting["result"] != false || waiting["state"] != "waiting" || len(waiting["causes"].([]any)) == 0 || waiting["manual_url"] != a.link() || waiting["waited_s"] != 3.0 {
			t.Errorf("waiting: %v", waiting)
		}
		status := a.call("colab_connection_status", "")
		s := object[map[string]any](t, status)
		id, _ := a.Identity()
		for key, want := range map[string]any{"connected": false, "state": "opening", "requested_url": bookA, "port": float64(id.Port), "pid": 42.0, "version": "1.2.3",
			"state_dir": "/state", "log_dir": "/logs", "session_dead": false, "instance": "primary", "running": nil, "blocked_connects": 0.0} {
			if got, has := s[key]; !has || got != want {
				t.Errorf("status: %s is %v, want %v", key, got, want)
			}
		}
		f := a.dial(tabtest.Knobs{})
		ready := object[map[string]any](t, a.call("open_colab_browser_connection", "{}"))
		if ready["result"] != true || ready["state"] != "ready" || ready["notebook_url"] != bookA || ready["manual_url"] != nil || ready["causes"] != nil {
			t.Errorf("ready: %v", ready)
		}
		s = object[map[string]any](t, a.call("colab_connection_status", ""))
		if s["connected"] != true || s["state"] != "ready" || s["notebook_url"] != bookA || s["tab"] == nil {
			t.Errorf("status: %v", s)
		}
		f.Drop()
		synctest.Wait()
		dead := a.call("colab_connection_status", "")
		if s := object[map[string]any](t, dead); s["session_dead"] != true || s["connected"] != false || s["notebook_url"] != nil {
			t.Errorf("status: %v", s)
		}
		if strings.Contains(status.text()+dead.text(), id.Token) {
			t.Error("the status holds the token")
		}
		if r := a.call("open_colab_browser_connection", `{"notebook_url":"/home/me/n.ipynb"}`); !r.IsError || r.StructuredContent != nil {
			t.Errorf("no link: %+v", r)
		}
		a.wants("", 1)
	})
}

// L6: the status says that a scratch notebook comes back blank.
func TestStatusSaysThatAScratchNotebookIsBlank(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		a.openWith("").Drop()
		a.accepts(time.Second, tabtest.Knobs{})
		if r := a.call("get_cells", ""); r.IsError {
			t.Fatalf("%+v", r)
		}
		if s := object[map[string]any](t, a.call("colab_connection_status", "")); !strings.Contains(fmt.Sprint(s["note"]), "blank") {
			t.Errorf("status: %v", s)
		}
	})
}

// Clients.md, point 1: the opener answers when the client has had the time to list what the tab added.
func TestOpenerLetsTheClientListFirst(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		a.accepts(time.Second, tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("foo", "")}})
		begun := time.Now()
		id := a.start("open_colab_browser_connection", "", "")
		for len(a.notes("notifications/tools/list_changed")) == 0 {
			if time.Since(begun) > time.Minute {
				t.Fatal("no list_changed")
			}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if _, done := a.answer(id); done {
			t.Error("the answer came before the client could list")
		}
		listed := time.Now()
		a.tools()
		a.await(id)
		within(t, "the answer after the list", time.Since(listed), 150*time.Millisecond, 500*time.Millisecond)
	})
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) { // a client that never lists again
		a.accepts(time.Second, tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("foo", "")}})
		begun := time.Now()
		a.call("open_colab_browser_connection", "")
		within(t, "the answer", time.Since(begun), time.Second, 3500*time.Millisecond)
	})
}

// C12 at the tools: a cancelled opener, a tab later.
func TestCancelledOpenerOfAnAgent(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		a.accepts(2*time.Second, tabtest.Knobs{})
		id := a.start("open_colab_browser_connection", "", "")
		time.Sleep(time.Second)
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		time.Sleep(2 * time.Second)
		a.wants(bridge.ScratchLink().URL(), 1)
	})
}
