package main

import (
	"strings"
	"testing"

	"colab-mcp/bridge/localtab/tabtest"
)

// oneMore reports whether the browser has been given another link.
func oneMore(links <-chan string) bool {
	select {
	case <-links:
		return true
	default:
		return false
	}
}

// connected starts the program with a browser that hands its links over, and
// connects a far tab to a notebook.
func connected(t *testing.T, notebook string, arguments ...string) (a *agent, tab *tabtest.FarTab, links <-chan string) {
	t.Helper()
	browser, links := handedOver(t)
	a = startAgent(t, append([]string{"--browser", browser}, arguments...)...)
	opening := a.begin(opener, args{"notebook_url": notebook})
	tab = tabtest.Dial(t, nil, <-links, tabtest.Knobs{})
	var got opened
	if opening.answer().into(&got); !got.Result {
		t.Fatalf("opened: %+v", got)
	}
	return a, tab, links
}

// drop has the tab's connection break, and waits until the program knows.
func (a *agent) drop(tab *tabtest.FarTab) {
	a.t.Helper()
	tab.Drop()
	a.until("the drop", func(r connReport) bool { return !r.Connected })
}

// L6, L8: the next tool that needs the tab has it opened again, exactly as it
// was, and waits; five at once have it opened once.
func TestReopenOnceForAll(t *testing.T) {
	a, tab, links := connected(t, oneNotebook)
	id := addCode(a, "print here")
	a.drop(tab)

	for _, tool := range []string{"colab_connection_status", "list_jobs", "list_colab_tools"} {
		a.call(tool, nil)
	}
	if a.send("tools/list", nil).wait().Error != nil || oneMore(links) {
		t.Error("looking at it has opened the browser")
	}

	var calls []*pending
	for range 5 {
		calls = append(calls, a.begin("get_cells", nil))
	}
	link := <-links
	if before, _, _ := strings.Cut(link, "#"); !strings.HasPrefix(before, oneNotebook) {
		t.Errorf("opened %s", before)
	}
	tab = tabtest.Dial(t, nil, link, tabtest.Knobs{Reuse: tab})
	for _, call := range calls {
		if res := call.answer(); res.IsError || !strings.Contains(res.text(), id) {
			t.Errorf("get_cells: %s", res.text())
		}
	}
	if oneMore(links) {
		t.Error("a second tab was opened")
	}
	if n := len(tab.Calls("get_cells")); n < 5 {
		t.Errorf("%d reads have reached the tab", n)
	}
}

// A tab that was closed is opened for a run, too, and the run is made once.
func TestReopenForARun(t *testing.T) {
	a, tab, links := connected(t, oneNotebook)
	tab.Close()
	a.until("the end", func(r connReport) bool { return !r.Connected })
	run := a.begin("run_code", args{"code": "print again"})
	tab = tabtest.Dial(t, nil, <-links, tabtest.Knobs{Reuse: tab})
	var got struct{ Status, Stdout string }
	if run.answer().into(&got); got.Stdout != "again\n" {
		t.Errorf("run_code: %+v", got)
	}
	ran := 0
	for _, code := range tab.Kernel.Ran() {
		ran += strings.Count(code, "print again")
	}
	if ran != 1 {
		t.Errorf("ran %d times", ran)
	}
}

// Who wants no tabs opened by themselves gets none, and is told what to do.
func TestReopenCanBeRefused(t *testing.T) {
	a, tab, links := connected(t, oneNotebook, "--auto-reopen=false")
	a.drop(tab)
	for _, tool := range []string{"get_cells", "get_notebook_outline"} {
		if res := a.call(tool, nil); res.code() != "no_tab" || !strings.Contains(res.text(), opener) {
			t.Errorf("%s: %s", tool, res.text())
		}
	}
	if oneMore(links) {
		t.Error("a tab was opened")
	}
	opening := a.begin(opener, nil) // what was asked for is done
	tabtest.Dial(t, nil, <-links, tabtest.Knobs{Reuse: tab})
	var got opened
	if opening.answer().into(&got); !got.Result || got.Notebook != oneNotebook || oneMore(links) {
		t.Errorf("opened: %+v", got)
	}
}

// The variable's three spellings.
func TestReopenVariable(t *testing.T) {
	for _, value := range []string{"0", "false", "no"} {
		browser, links := handedOver(t)
		a := startWith(t, []string{"COLAB_MCP_AUTO_REOPEN=" + value}, "--browser", browser)
		opening := a.begin(opener, nil)
		tab := tabtest.Dial(t, nil, <-links, tabtest.Knobs{})
		opening.answer()
		a.drop(tab)
		if res := a.call("get_cells", nil); res.code() != "no_tab" || oneMore(links) {
			t.Errorf("%s: %s", value, res.text())
		}
	}
}

// L6: the notebook of an earlier process is named and not opened.
func TestReopenNamesTheEarlierNotebook(t *testing.T) {
	dir := stateDir(t)
	first := serve(t, dir)
	first.ask(oneNotebook)
	first.end()

	browser, links := handedOver(t)
	a := launchAgent(t, dir, "--browser", browser)
	a.shakeHands("colab-mcp-test")
	if r := a.status(); r.Previous != oneNotebook || r.Requested != "" {
		t.Errorf("status: %+v", r)
	}
	for _, tool := range []string{"get_cells", "get_notebook_outline", "run_notebook"} {
		if res := a.call(tool, nil); res.code() != "no_tab" || !strings.Contains(res.text(), oneNotebook) {
			t.Errorf("%s: %s", tool, res.text())
		}
	}
	if oneMore(links) {
		t.Error("it was opened")
	}
}

// L6: a scratch notebook that is opened again is another, blank one: the
// opener says so.
func TestReopenOfAScratchNotebook(t *testing.T) {
	a, tab, links := connected(t, "")
	a.drop(tab)
	opening := a.begin(opener, nil)
	tabtest.Dial(t, nil, <-links, tabtest.Knobs{})
	var got struct {
		opened
		Note string `json:"note"`
	}
	if opening.answer().into(&got); !got.Result || !strings.Contains(got.Note, "blank") {
		t.Errorf("opened: %+v, note %q", got.opened, got.Note)
	}
}

// L1: waits that were in vain, and the last one's caller, do not matter to a
// tab that comes late. One tab was opened for all of them.
func TestReopenAfterVainWaits(t *testing.T) {
	browser, links := handedOver(t)
	a := startAgent(t, "--browser", browser, "--ui-timeout", "0.1")
	var got opened
	for range 3 {
		if a.call(opener, args{"notebook_url": oneNotebook}).into(&got); got.Result || got.State != "waiting" || len(got.Causes) < 3 {
			t.Errorf("opened: %+v", got)
		}
	}
	a.connect(<-links, tabtest.Knobs{})
	if oneMore(links) {
		t.Error("a second tab was opened")
	}
	if res := a.call("get_cells", nil); res.IsError {
		t.Errorf("get_cells: %s", res.text())
	}
	if a.call(opener, nil).into(&got); !got.Result || got.Notebook != oneNotebook {
		t.Errorf("opened: %+v", got)
	}
}
