package main

import (
	"strings"
	"testing"

	"colab-mcp/bridge/localtab/tabtest"
)

// logs has the tab log each of said, an error last, and returns what the agent
// was told by then.
func logs(a *agent, tab *tabtest.FarTab, said ...string) (told []string) {
	a.t.Helper()
	const method, last = "notifications/message", `{"level":"error","data":"last"}`
	before := len(a.notifications(method))
	for _, params := range append(said, last) {
		tab.Inject(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)
	}
	waitFor(a.t, "the last log", func() bool {
		told = nil
		for _, m := range a.notifications(method)[before:] {
			told = append(told, string(m.Params))
		}
		return len(told) > 0 && strings.Contains(told[len(told)-1], `"last"`)
	})
	return told[:len(told)-1]
}

// C16: a client that never says logging/setLevel is told, from info on, what
// the tab says as it says it; one that does gets its level.
func TestLogOfTheTabReachesTheAgent(t *testing.T) {
	a := startAgent(t, "--ephemeral", "--browser", "none")
	tab := a.connect(a.ask(oneNotebook), tabtest.Knobs{})
	debug := `{"data":"noise","level":"debug"}`
	info := `{"data":{"n":9007199254740993},"level":"info","logger":"colab"}`
	if got := logs(a, tab, debug, info, `"not an object"`); len(got) != 1 || got[0] != info {
		t.Errorf("told %q; wanted %q", got, info)
	}
	if m := a.send("logging/setLevel", args{"level": "warning"}).wait(); m.Error != nil {
		t.Fatalf("setLevel: %s", m.Error)
	}
	warning := `{"data":"hot","level":"warning"}`
	if got := logs(a, tab, info, warning); len(got) != 1 || got[0] != warning {
		t.Errorf("told %q; wanted %q", got, warning)
	}
}

// From 2026-07-28 on a log belongs to a request that asked for it, which these
// do not.
func TestLogOfTheTabIsNotForANewerClient(t *testing.T) {
	a := launchAgent(t, t.TempDir(), "--ephemeral", "--browser", "none")
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    stateless,
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": struct{}{},
	}
	call := func(tool string, arguments args) *pending {
		return a.send("tools/call", map[string]any{"name": tool, "arguments": arguments, "_meta": meta})
	}
	var got opened
	call(opener, args{"notebook_url": oneNotebook}).answer().into(&got)
	tab := tabtest.Dial(t, nil, got.Manual, tabtest.Knobs{Logs: 1})
	waitFor(t, "a tab that is ready", func() bool {
		var r connReport
		call("colab_connection_status", args{}).answer().into(&r)
		return r.Connected
	})
	call("get_cells", args{}).wait()
	if len(tab.Calls("get_cells")) == 0 {
		t.Fatal("the tab was not asked and logged nothing")
	}
	a.close() // by then all was said
	if told := a.notifications("notifications/message"); len(told) > 0 {
		t.Errorf("told %s", told[0].Params)
	}
}
