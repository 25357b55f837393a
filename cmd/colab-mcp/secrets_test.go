package main

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"colab-mcp/bridge/localtab/tabtest"
)

// overheard is all that processes have said outside of the link.
type overheard struct {
	t      testing.TB
	tokens []string
	said   map[string]string // by where
}

// manual is the one place where a token may be told.
var manual = regexp.MustCompile(`\\*"manual_url\\*":\\*"[^"]*"`)

func (o *overheard) knows(token string) {
	if !slices.Contains(o.tokens, token) {
		o.tokens = append(o.tokens, token)
	}
}

// asks opens a notebook that nobody accepts, and notes the token of its link.
func (o *overheard) asks(a *agent, notebook string) string {
	res := a.call(opener, args{"notebook_url": notebook})
	o.hear("the opener", string(res.Raw))
	var got opened
	res.into(&got)
	if got.Manual == "" {
		o.t.Fatalf("no link to open by hand: %+v", got)
	}
	o.knows(tokenOf(o.t, got.Manual))
	return got.Manual
}

func (o *overheard) calls(a *agent, tool string, arguments args) {
	o.hear(tool, string(a.call(tool, arguments).Raw))
}

func (o *overheard) hear(where, text string) {
	o.said[where] += manual.ReplaceAllString(text, "")
}

// ends ends a process and hears what it leaves.
func (o *overheard) ends(a *agent) {
	a.end()
	o.hear("stderr", a.stderr.String())
	for _, n := range a.notes {
		o.hear("a notification", string(n.Params))
	}
	err := filepath.WalkDir(a.StateDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), connectionFile) {
			return err
		}
		text, err := os.ReadFile(path)
		o.hear("the file "+d.Name(), string(text))
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
}

// S4: with everything logged, a token is in the link and in connection.json
// and nowhere else, on any path.
func TestTokenIsInTheLinkAndNowhereElse(t *testing.T) {
	o := &overheard{t: t, said: map[string]string{}}
	dir := stateDir(t)
	start := func(arguments ...string) *agent {
		return serve(t, dir, append([]string{"--log-level", "debug", "--ui-timeout", "1", "--soft-limit", "2"}, arguments...)...)
	}

	a := start()
	link := o.asks(a, oneNotebook)
	first := tokenOf(t, link)
	knock := func(change func(*tabtest.Raw)) {
		r := tabtest.RawOf(nil, link)
		change(&r)
		if conn, _, err := r.Dial(context.Background()); err == nil {
			conn.CloseNow()
			t.Error("a dial that is wrong was let in")
		}
	}
	knock(func(r *tabtest.Raw) { r.Path += "x" })
	knock(func(r *tabtest.Raw) { r.Path += "&access_token=" + first })
	knock(func(r *tabtest.Raw) { r.Path = "/" + first + "?" + r.Path[2:]; r.Subprotocols = nil })
	knock(func(r *tabtest.Raw) { r.Header.Set("Origin", "https://"+strings.ToLower(first)+".example") })
	knock(func(r *tabtest.Raw) { r.HostHeader = "evil.example" })
	knock(func(r *tabtest.Raw) { r.Path = "/"; r.Header.Set("Authorization", "Basic "+first) })
	knock(func(r *tabtest.Raw) { r.Path = "/%zz?access_token=" + first })
	if resp, err := http.Get("http://" + tabtest.RawOf(nil, link).Host + "/?access_token=" + first); err == nil {
		resp.Body.Close()
	}
	o.calls(a, "get_cells", nil)
	o.calls(a, "colab_connection_status", nil)
	o.calls(a, "run_code", args{"code": "print x"})

	tab := a.connect(link, tabtest.Knobs{})
	tab.Inject(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"opened ` + first + `"}}`)
	tab.Inject(`{"jsonrpc":"2.0","id":"` + first + `","method":"roots/list"}`)
	tab.Inject(`{"jsonrpc":"2.0","id":99,"result":` + first)
	tab.Inject(first)
	o.calls(a, "colab_connection_status", nil)
	o.calls(a, "get_cells", nil)
	o.calls(a, "run_code", args{"code": "print x"})
	o.calls(a, "run_cells", args{"cell_ids": []string{"nope"}})
	o.calls(a, "call_colab_tool", args{"name": "nope"})
	if second, err := tabtest.TryDial(t, nil, link, tabtest.Knobs{}); err == nil {
		<-second.Gone()
	}

	// Another notebook: the token is another, the old tab is turned away.
	other := o.asks(a, otherNotebook)
	<-tab.Gone()
	knock(func(*tabtest.Raw) {})
	tab = a.connect(other, tabtest.Knobs{})
	tab.CloseWith(4000, tokenOf(t, other))
	a.until("the drop", func(r connReport) bool { return !r.Connected })
	o.calls(a, "list_jobs", nil)
	// Links that users paste bring tokens along (S6).
	o.calls(a, opener, args{"notebook_url": "https://github.com/o/r?token=" + first + "#mcpProxyToken=" + first})
	link = o.asks(a, oneNotebook+"?token="+first+"#mcpProxyToken="+first+"&mcpProxyPort=1")
	if tokenOf(t, link) == first {
		t.Error("a stale token survived in the link")
	}

	// A second process has a token of its own; one without a browser fails.
	b := start("--browser", "false")
	o.asks(b, oneNotebook)
	c := start("--ephemeral", "--browser", "/no/such/browser")
	o.asks(c, "")
	o.ends(c)
	o.ends(b)
	o.ends(a)

	d := start("--rotate-token")
	o.asks(d, otherNotebook)
	o.ends(d)
	damaged, err := os.ReadFile(filepath.Join(dir, connectionFile))
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, connectionFile), damaged[:len(damaged)-10], 0o600)
	e := start()
	o.asks(e, "")
	o.ends(e)

	for _, command := range []string{"doctor", "logs"} {
		out, errs, _ := program(t, t.TempDir(), "--state-dir", dir, command)
		o.hear(command, out+errs)
	}
	if len(o.tokens) < 7 {
		t.Fatalf("only %d tokens were made", len(o.tokens))
	}
	for where, text := range o.said {
		for i, token := range o.tokens {
			if at := strings.Index(strings.ToUpper(text), strings.ToUpper(token)); at >= 0 {
				t.Errorf("token %d is in %s: …%.120q", i, where, strings.ReplaceAll(text[max(0, at-80):], token, "TOKEN"))
			}
		}
	}
	if !strings.Contains(o.said["the file colab-mcp.log"], "level=DEBUG") {
		t.Error("nothing was logged at debug level: this test shows less than it says")
	}
}

// Issue 5.7: each event of a connection is one line that says why.
func TestLogHasALineForEachEventOfAConnection(t *testing.T) {
	dir := stateDir(t)
	a := serve(t, dir, "--ui-timeout", "0.2")
	link := a.ask(oneNotebook)
	a.call(opener, args{"notebook_url": oneNotebook}) // waits in vain
	r := tabtest.RawOf(nil, link)
	r.Header.Set("Origin", "https://example.com")
	if _, _, err := r.Dial(context.Background()); err == nil {
		t.Fatal("a stranger was let in")
	}
	tab := a.connect(link, tabtest.Knobs{})
	if second, err := tabtest.TryDial(t, nil, link, tabtest.Knobs{}); err == nil {
		<-second.Gone()
	}
	a.ask(otherNotebook)
	<-tab.Gone()
	a.end()
	serve(t, dir, "--rotate-token").end()
	log := a.log()
	for _, event := range []string{
		"msg=opening notebook=" + oneNotebook, `msg="no tab came in time"`, `msg="connection refused" status=403 reason="the Origin is not Colab's" times=1`,
		`msg="tab connected"`, `msg="tab ready" tools=7`, `msg="second tab turned away"`,
		`msg="tab gone" reason="another notebook was opened"`, "msg=opening notebook=" + otherNotebook,
		`msg="token replaced" reason="asked for"`,
	} {
		if n := strings.Count(log, event); n != 1 {
			t.Errorf("%q is there %d times in\n%s", event, n, log)
		}
	}
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "time=") || !strings.Contains(line, " level=") {
			t.Errorf("not one event a line: %q", line)
		}
	}
}
