package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

// The notebooks of tests that need no page.
const (
	oneNotebook   = "https://colab.research.google.com/drive/1AbCdEfGhIjKlMnOpQrStUvWxYz012345"
	otherNotebook = "https://colab.research.google.com/drive/1ZyXwVuTsRqPoNmLkJiHgFeDcBa543210"
)

// connReport is what colab_connection_status says.
type connReport struct {
	Connected bool   `json:"connected"`
	State     string `json:"state"`
	Notebook  string `json:"notebook_url"`
	Requested string `json:"requested_url"`
	Previous  string `json:"previous_notebook_url"`
	Port      int    `json:"port"`
	PortError string `json:"port_error"`
	PID       int    `json:"pid"`
	StateDir  string `json:"state_dir"`
	LogDir    string `json:"log_dir"`
	Instance  string `json:"instance"`
	Note      string `json:"note"`
	Running   *struct{ Op string }
}

func (a *agent) status() connReport {
	a.t.Helper()
	var r connReport
	a.call("colab_connection_status", nil).into(&r)
	return r
}

// until asks for the status until it is as wanted, which is on its way.
func (a *agent) until(what string, wanted func(connReport) bool) connReport {
	a.t.Helper()
	var r connReport
	waitFor(a.t, what, func() bool {
		r = a.status()
		return wanted(r)
	})
	return r
}

// waitFor looks at something that another process changes until it is as
// wanted. Where there is a channel to wait on, that is better.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// ask opens a notebook, "" for a scratch one, in a program with
// --browser none, and returns the link that the user is given.
func (a *agent) ask(notebook string) (link string) {
	a.t.Helper()
	var got opened
	a.call(opener, args{"notebook_url": notebook}).into(&got)
	if got.Manual == "" {
		a.t.Fatalf("no link to open by hand: %+v", got)
	}
	return got.Manual
}

// connect has a far tab follow a link and waits until the program has it.
func (a *agent) connect(link string, k tabtest.Knobs) *tabtest.FarTab {
	a.t.Helper()
	tab := tabtest.Dial(a.t, nil, link, k)
	a.until("a tab that is ready", func(r connReport) bool { return r.Connected })
	return tab
}

// refused checks that a link is no longer good.
func refused(t testing.TB, link string) {
	t.Helper()
	_, err := tabtest.TryDial(t, nil, link, tabtest.Knobs{})
	if no, ok := errors.AsType[*localtab.RefusedError](err); !ok || no.Status != 403 {
		t.Errorf("a retired link: %v, expected status 403", err)
	}
}

// tokenOf is the token of a link.
func tokenOf(t testing.TB, link string) string {
	t.Helper()
	_, rest, ok := strings.Cut(link, "mcpProxyToken=")
	token, _, _ := strings.Cut(rest, "&")
	if !ok || len(token) < 20 {
		t.Fatalf("no token in %q", link)
	}
	return token
}

// hungUp waits until the program has closed a far tab, and returns how.
func hungUp(t testing.TB, tab *tabtest.FarTab) (code int, reason string) {
	t.Helper()
	select {
	case <-tab.Gone():
	case <-time.After(patience):
		t.Fatal("the tab is still connected")
	}
	c, why := tab.CloseCode()
	return int(c), why
}
