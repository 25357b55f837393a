//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"colab-mcp/bridge/localtab/tabtest"
)

// What the bridge's tests hold in virtual time, once with the program, real
// sockets and the clock on the wall.

// byHand starts the program without a browser and connects a far tab, whose
// link is good for another one.
func byHand(t *testing.T) (a *agent, link string, tab *tabtest.FarTab) {
	t.Helper()
	a = startAgent(t, "--browser", "none", "--ui-timeout", "1")
	link = a.ask(oneNotebook)
	return a, link, a.connect(link, tabtest.Knobs{})
}

// sent is how often a far tab was sent a method.
func sent(tab *tabtest.FarTab, method string) int {
	n := 0
	for _, m := range tab.Received() {
		if m.Method == method {
			n++
		}
	}
	return n
}

// L4: a tab that is alive keeps its place; one that reads nothing any more
// loses it to the tab that knocks.
func TestLivenessSecondTab(t *testing.T) {
	a, link, first := byHand(t)
	for range 3 {
		second, err := tabtest.TryDial(t, nil, link, tabtest.Knobs{})
		if err != nil {
			t.Fatal(err)
		}
		if code, why := hungUp(t, second); code != 1013 || !strings.Contains(why, "one notebook") {
			t.Errorf("the second was closed with %d %q", code, why)
		}
	}
	if res := a.call("get_cells", nil); res.IsError || len(first.Calls("get_cells")) == 0 {
		t.Errorf("the first was disturbed: %s", res.text())
	}
	first.StopReading()
	third := tabtest.Dial(t, nil, link, tabtest.Knobs{Reuse: first})
	waitFor(t, "the handshake of the tab that takes over", func() bool { return sent(third, "notifications/initialized") == 1 })
	a.until("a tab again", func(r connReport) bool { return r.Connected })
	if res := a.call("get_cells", nil); res.IsError || len(third.Calls("get_cells")) == 0 {
		t.Errorf("after the take-over: %s", res.text())
	}
}

// L5: a frozen page is told from a dead one: a call fails in about 5 s and names
// the cure, the connection stays, and the page answers when it thaws.
func TestLivenessFrozenPage(t *testing.T) {
	a, tab, links := connected(t, oneNotebook)
	tab.Freeze()
	began := time.Now()
	res := a.call("get_cells", nil)
	if took := time.Since(began); res.code() != "timeout" || !strings.Contains(res.text(), "to the front") || took < 4*time.Second {
		t.Errorf("after %v: %s", took, res.text())
	}
	if !a.status().Connected {
		t.Error("the connection was given up")
	}
	tab.Thaw()
	if res := a.call("get_cells", nil); res.IsError || oneMore(links) {
		t.Errorf("after the thaw: %s", res.text())
	}
}

// Issue 5.3: the machine sleeps, which for a program is to be stopped, and its
// tab is gone when it wakes: it is noticed and opened again.
func TestLivenessSleep(t *testing.T) {
	a, tab, links := connected(t, oneNotebook)
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tab.Drop()
	a.cmd.Process.Signal(syscall.SIGCONT)
	a.until("the drop", func(r connReport) bool { return !r.Connected })
	read := a.begin("get_cells", nil)
	tabtest.Dial(t, nil, <-links, tabtest.Knobs{Reuse: tab})
	if res := read.answer(); res.IsError {
		t.Errorf("get_cells: %s", res.text())
	}
}

// Issue 5.3: the user opens another notebook in the same page. Nothing goes
// into it until somebody has looked.
func TestLivenessOtherNotebookInTheSamePage(t *testing.T) {
	a, tab, _ := connected(t, oneNotebook)
	// The program looks by itself, beside its answer, and must not see the other
	// notebook first.
	waitFor(t, "the program's own look", func() bool { return len(tab.Calls("get_cells")) > 0 })
	addCode(a, "print here")
	outlineOf(a)
	added := len(tab.Calls("add_code_cell"))
	tab.Set(func(k *tabtest.Knobs) {
		k.Answer = map[string]string{"get_cells": `{"content":[],"structuredContent":{"cells":[{"cell_type":"code","id":"Other_000001","source":["x"]}]}}`}
	})
	for tool, arguments := range map[string]args{
		"add_code_cell": {"code": "x"}, "add_text_cell": {"content": "x"}, "run_code": {"code": "x"}, "run_notebook": {"background": false},
		"call_colab_tool": {"name": "add_code_cell", "arguments": args{"cellIndex": 0, "language": "python", "code": "x"}},
		"upload_file":     {"local_path": binary(t)},
	} {
		if res := a.call(tool, arguments); res.code() != "changed" || !strings.Contains(res.text(), "get_notebook_outline") {
			t.Errorf("%s: %s", tool, res.text())
		}
	}
	if n := len(tab.Calls("add_code_cell")); n != added || len(tab.Calls("run_code_cell")) != 0 {
		t.Errorf("%d cells were added, %d run", n-added, len(tab.Calls("run_code_cell")))
	}
	outlineOf(a)
	addCode(a, "it is meant now")
}

// L8: after an opening that failed a tool is told so at once, and no second tab
// is opened for it.
func TestLivenessBackOff(t *testing.T) {
	browser, links := handedOver(t)
	a := startAgent(t, "--browser", browser, "--ui-timeout", "1")
	a.begin(opener, args{"notebook_url": oneNotebook}) // gives up where the browser is slow to start
	a.drop(a.connect(<-links, tabtest.Knobs{}))
	for i := range 3 {
		if res := a.call("get_cells", nil); res.code() != "no_tab" {
			t.Errorf("try %d: %s", i, res.text())
		}
	}
	<-links
	if oneMore(links) {
		t.Error("a second tab was opened")
	}
}

// L7: the opener says which phase hangs.
func TestLivenessHangingHandshake(t *testing.T) {
	a := startAgent(t, "--browser", "none", "--ui-timeout", "1")
	tab := tabtest.Dial(t, nil, a.ask(oneNotebook), tabtest.Knobs{NoInitialize: true})
	waitFor(t, "the question that gets no answer", func() bool { return sent(tab, "initialize") == 1 })
	var got opened
	a.call(opener, nil).into(&got)
	if got.Result || !slices.ContainsFunc(got.Causes, func(c string) bool { return strings.Contains(c, "initialize") }) {
		t.Errorf("opened: %+v", got)
	}
}

// L2, issue 5.5: a hundred reconnects in a row leave nothing behind, each with
// a handshake of its own.
func TestLivenessHundredReconnects(t *testing.T) {
	a, link, tab := byHand(t)
	open := func() int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.cmd.Process.Pid))
		if err != nil {
			return 0 // not Linux
		}
		return len(fds)
	}
	a.call("get_cells", nil)
	before := open()
	for i := range 100 {
		a.drop(tab)
		tab = a.connect(link, tabtest.Knobs{Reuse: tab})
		if res := a.call("get_cells", nil); res.IsError {
			t.Fatalf("reconnect %d: %s", i, res.text())
		}
		if n := sent(tab, "initialize"); n != 1 {
			t.Fatalf("reconnect %d: %d handshakes", i, n)
		}
	}
	if after := open(); after > before+3 {
		t.Errorf("%d files were open, and now %d", before, after)
	}
}

// Issue 5.5, L10: a flood of connects without a byte and with bad tokens costs
// a few lines of log, is counted, and lets the tab in.
func TestLivenessFlood(t *testing.T) {
	a := startAgent(t, "--browser", "none", "--ui-timeout", "1")
	link := a.ask(oneNotebook)
	r := tabtest.RawOf(nil, strings.Replace(link, tokenOf(t, link), "BADTOKENBADTOKENBADTOKENBA", 1))
	// For the name a slow dial tries both families, and one comes without a byte.
	r.Host = strings.Replace(r.Host, "localhost", "127.0.0.1", 1)
	for range 400 {
		c, err := net.Dial("tcp", r.Host)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for range 400 {
		if _, resp, err := r.Dial(t.Context()); err == nil || resp == nil || resp.StatusCode != http.StatusForbidden {
			t.Fatalf("a bad token: %v", err)
		}
	}
	var flooded struct {
		Blocked int `json:"blocked_connects"`
	}
	waitFor(t, "the count of silent connects", func() bool {
		a.call("colab_connection_status", nil).into(&flooded)
		return flooded.Blocked == 400
	})
	var got opened
	a.call(opener, args{"notebook_url": oneNotebook}).into(&got)
	for _, word := range []string{"400 connection(s) came without a byte", "400 connection(s) came with an old token"} {
		if !slices.ContainsFunc(got.Causes, func(c string) bool { return strings.Contains(c, word) }) {
			t.Errorf("%q is not among %q", word, got.Causes)
		}
	}
	if n := strings.Count(a.log(), "\n"); n > 60 {
		t.Errorf("%d lines of log", n)
	}
	a.connect(link, tabtest.Knobs{})
}
