package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"colab-mcp/bridge/localtab/tabtest"
)

// serve starts the program on a state directory with no browser, and shakes
// hands.
func serve(t testing.TB, dir string, arguments ...string) *agent {
	t.Helper()
	a := launchAgent(t, dir, append([]string{"--browser", "none"}, arguments...)...)
	a.shakeHands("colab-mcp-test")
	return a
}

// end ends the program as an agent does and fails the test if it ends badly.
func (a *agent) end() {
	a.t.Helper()
	if err := a.close(); err != nil {
		a.t.Fatal(err)
	}
}

// kept is connection.json, and what else is in its envelope.
type kept struct {
	Version int        `json:"version"`
	Data    connection `json:"data"`
}

func readKept(t testing.TB, dir string) kept {
	t.Helper()
	var k kept
	raw, err := os.ReadFile(filepath.Join(dir, connectionFile))
	if err == nil {
		err = json.Unmarshal(raw, &k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// untilKept waits until connection.json is as wanted: it is written behind the
// answer that made it change.
func untilKept(t testing.TB, dir, what string, wanted func(connection) bool) {
	t.Helper()
	waitFor(t, what+" in "+connectionFile, func() bool { return wanted(readKept(t, dir).Data) })
}

func (k kept) write(t testing.TB, dir string) {
	t.Helper()
	raw, err := json.Marshal(k)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, connectionFile), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stateDir is a private folder, which may have files in it before the program
// makes it its own.
func stateDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// portDir is a stateDir whose processes, one after the other, have one port
// that stays free between them.
func portDir(t testing.TB) string {
	t.Helper()
	dir := stateDir(t)
	kept{1, connection{Port: freePort(t)}}.write(t, dir)
	return dir
}

// A page that is open finds the restarted server by its old link, and the
// status names its notebook.
func TestIdentityOutlivesTheProcess(t *testing.T) {
	dir := portDir(t)
	first := serve(t, dir)
	link := first.ask(oneNotebook)
	port := first.status().Port
	first.connect(link, tabtest.Knobs{})
	first.end()

	second := serve(t, dir)
	if r := second.status(); r.Port != port || r.Previous != oneNotebook || r.Requested != "" || r.Connected || r.Note != "" {
		t.Fatalf("status after the restart: %+v", r)
	}
	tab := second.connect(link, tabtest.Knobs{})
	if r := second.status(); r.Notebook != oneNotebook {
		t.Errorf("status with the old page: %+v", r)
	}
	if res := second.call("get_cells", args{"cellIndexEnd": 7}); res.IsError || !slices.ContainsFunc(tab.Calls("get_cells"), func(m tabtest.Message) bool {
		return strings.Contains(string(m.Raw), `"cellIndexEnd":7`)
	}) {
		t.Errorf("get_cells: %s", res.text())
	}
}

// --ephemeral reads nothing and writes nothing.
func TestIdentityEphemeral(t *testing.T) {
	dir := stateDir(t)
	first := serve(t, dir)
	link := first.ask(oneNotebook)
	first.end()
	before := tree(t, dir)

	other := serve(t, dir, "--ephemeral")
	r := other.status()
	fresh := other.ask("")
	if r.Previous != "" || r.StateDir != "" || r.LogDir != "" || tokenOf(t, fresh) == tokenOf(t, link) {
		t.Errorf("status: %+v", r)
	}
	refused(t, strings.Replace(fresh, tokenOf(t, fresh), tokenOf(t, link), 1))
	other.connect(fresh, tabtest.Knobs{})
	other.call("run_code", args{"code": "print x"})
	other.end()
	if after := tree(t, dir); after != before {
		t.Errorf("the state directory was\n%s\nand is\n%s", before, after)
	}

	empty := filepath.Join(t.TempDir(), "none")
	serve(t, empty, "--ephemeral").end()
	if _, err := os.Stat(empty); err == nil {
		t.Error("the state directory was made")
	}
}

// --rotate-token keeps port and notebook; the old link is good for nothing.
func TestIdentityRotates(t *testing.T) {
	dir := portDir(t)
	first := serve(t, dir)
	link, port := first.ask(oneNotebook), first.status().Port
	first.end()

	second := serve(t, dir, "--rotate-token")
	if r := second.status(); r.Port != port || r.Previous != oneNotebook {
		t.Errorf("status: %+v", r)
	}
	refused(t, link)
	now := readKept(t, dir)
	if now.Data.Token == tokenOf(t, link) || now.Data.Port != port || now.Data.Notebook != oneNotebook {
		t.Errorf("kept: port %d, notebook %q", now.Data.Port, now.Data.Notebook)
	}
	second.end()

	third := serve(t, dir) // without the flag the new one stays
	third.connect(strings.Replace(link, tokenOf(t, link), now.Data.Token, 1), tabtest.Knobs{})
}

// A token's age is judged by the clock on the wall, which may have been wrong.
func TestIdentityTokenAge(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name string
		age  time.Duration
		args []string
		kept bool
	}{
		{"29 days", 29 * day, nil, true},
		{"31 days", 31 * day, nil, false},
		{"31 days, 40 allowed", 31 * day, []string{"--token-max-age-days", "40"}, true},
		{"two days, one allowed", 2 * day, []string{"--token-max-age-days", "1"}, false},
		{"ten years, never", 3650 * day, []string{"--token-max-age-days", "0"}, true},
		{"ten years, more days than a duration holds", 3650 * day, []string{"--token-max-age-days", "200000"}, true},
		{"an hour ahead", -time.Hour, nil, true},
		{"two days ahead", -2 * day, nil, false},
		{"two days ahead, never", -2 * day, []string{"--token-max-age-days", "0"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := stateDir(t)
			const token = "TESTTOKENTESTTOKENTESTTOKE"
			port := freePort(t)
			kept{1, connection{token, time.Now().Add(-c.age), port, oneNotebook}}.write(t, dir)
			a := serve(t, dir, c.args...)
			if r := a.status(); r.Port != port || r.Previous != oneNotebook {
				t.Errorf("status: %+v", r)
			}
			if got := readKept(t, dir); (got.Data.Token == token) != c.kept || !c.kept && time.Since(got.Data.Created) > time.Hour {
				t.Errorf("token of %s kept: %v", got.Data.Created, got.Data.Token == token)
			}
			a.end()
		})
	}
}

// L13: with --port a busy port is told through the tools while MCP answers;
// once it is free the next opening has it.
func TestIdentityPinnedPortIsBusy(t *testing.T) {
	stranger, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	port := stranger.Addr().(*net.TCPAddr).Port
	a := serve(t, t.TempDir(), "--port", fmt.Sprint(port))
	if r := a.status(); !strings.Contains(r.PortError, fmt.Sprint(port)) || r.Connected {
		t.Errorf("status: %+v", r)
	}
	if a.send("tools/list", nil).wait().Error != nil {
		t.Error("tools/list fails")
	}
	for _, tool := range []string{opener, "get_cells", "run_code"} {
		if res := a.call(tool, args{"code": "1"}.only(tool == "run_code")); res.code() != "no_port" || !strings.Contains(res.text(), fmt.Sprint(port)) {
			t.Errorf("%s: %s", tool, res.text())
		}
	}
	stranger.Close()
	a.connect(a.ask(""), tabtest.Knobs{})
	if r := a.status(); r.Port != port || r.PortError != "" {
		t.Errorf("status: %+v", r)
	}
}

// A token that is replaced while the port cannot be had is replaced for good.
func TestIdentityRotatesWithoutAPort(t *testing.T) {
	dir := stateDir(t)
	first := serve(t, dir)
	link := first.ask(oneNotebook)
	untilKept(t, dir, "the notebook", func(c connection) bool { return c.Notebook == oneNotebook })
	first.end()
	stranger, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	port := stranger.Addr().(*net.TCPAddr).Port
	serve(t, dir, "--rotate-token", "--port", fmt.Sprint(port)).end()
	if now := readKept(t, dir); now.Data.Token == tokenOf(t, link) || now.Data.Notebook != oneNotebook {
		t.Errorf("kept: the old token %v, notebook %q", now.Data.Token == tokenOf(t, link), now.Data.Notebook)
	}
}

// only is the arguments if that is so, else none.
func (a args) only(ok bool) args {
	if ok {
		return a
	}
	return nil
}

// L11, L13: a saved port that somebody has, on one family or the other, is no
// reason to complain: another is taken.
func TestIdentitySavedPortIsBusy(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		stranger, err := net.Listen("tcp", address)
		if err != nil {
			t.Log("not here: ", err)
			continue
		}
		defer stranger.Close()
		port := stranger.Addr().(*net.TCPAddr).Port
		dir := stateDir(t)
		const token = "TESTTOKENTESTTOKENTESTTOKE"
		kept{1, connection{token, time.Now(), port, oneNotebook}}.write(t, dir)
		a := serve(t, dir)
		r := a.status()
		if r.Port == port || r.Port == 0 || r.PortError != "" || r.Note != "" {
			t.Errorf("%s: status: %+v", address, r)
		}
		link := a.ask(oneNotebook)
		if tokenOf(t, link) == token {
			t.Error("the stranger may be given a token that is good here")
		}
		a.connect(link, tabtest.Knobs{})
		untilKept(t, dir, "the other port", func(c connection) bool { return c.Port == r.Port && c.Token != token })
		a.end()
	}
}

// L11, S3: one port on both loopback addresses, and on no other.
func TestIdentityPortIsLoopbackOnly(t *testing.T) {
	a := serve(t, stateDir(t))
	link := a.ask("")
	port := fmt.Sprint(a.status().Port)
	hosts := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		l.Close()
		hosts = append(hosts, "::1")
	}
	for _, host := range hosts {
		door := tabtest.RawOf(nil, link)
		door.Host = net.JoinHostPort(host, port)
		conn, _, err := door.Dial(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", host, err)
		}
		conn.CloseNow()
		a.until("the tab has left", func(r connReport) bool { return r.State != "socket" })
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		ip := address.(*net.IPNet).IP
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		if c, err := net.Dial("tcp", net.JoinHostPort(ip.String(), port)); err == nil {
			c.Close()
			t.Errorf("%s is listening, too", ip)
		}
	}
}

// L9: another notebook retires the token at once, the old page is told why and
// cannot come back. What was asked for and what is connected are two things.
func TestIdentitySwitchesNotebooks(t *testing.T) {
	a := serve(t, t.TempDir())
	old := a.ask(oneNotebook)
	tab := a.connect(old, tabtest.Knobs{})
	port := a.status().Port

	next := a.ask(otherNotebook)
	if code, reason := hungUp(t, tab); code != 4001 || reason == "" {
		t.Errorf("the old page was closed with %d %q", code, reason)
	}
	refused(t, old)
	if r := a.status(); r.Connected || r.Requested != otherNotebook || r.Notebook != "" || r.Port != port {
		t.Errorf("status before the new page: %+v", r)
	}
	untilKept(t, a.StateDir, "a new token and the other notebook", func(c connection) bool {
		return c.Token == tokenOf(t, next) && c.Notebook == otherNotebook
	})
	a.connect(next, tabtest.Knobs{})
	if r := a.status(); r.Notebook != otherNotebook || r.Requested != otherNotebook {
		t.Errorf("status with the new page: %+v", r)
	}
	refused(t, old)
}

// L12: a damaged file is set aside, whatever is wrong with it, and costs the
// identity only.
func TestIdentityDamagedFile(t *testing.T) {
	for name, content := range map[string]string{
		"empty":     "",
		"truncated": `{"version":1,"data":{"token":"TESTTOKENTESTTOKENTESTTOKE","port":49`,
		"noise":     "\x00\xff\x00\xff",
		"no object": `[1]`,
		"types":     `{"version":1,"data":{"token":7,"port":"x"}}`,
		"version 0": `{"version":0,"data":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := stateDir(t)
			if err := os.WriteFile(filepath.Join(dir, connectionFile), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			a := serve(t, dir)
			a.connect(a.ask(oneNotebook), tabtest.Knobs{})
			if bad, err := os.ReadFile(filepath.Join(dir, connectionFile+".bad")); err != nil || string(bad) != content {
				t.Errorf("set aside: %q, %v", bad, err)
			}
			if r := a.status(); r.Instance != "primary" {
				t.Errorf("status: %+v", r)
			}
			untilKept(t, dir, "the notebook", func(c connection) bool { return c.Notebook == oneNotebook })
			a.end()
		})
	}
}

// A file that says less or other than it should is used as far as it goes.
func TestIdentityOddFile(t *testing.T) {
	for name, c := range map[string]connection{
		"no token":        {Created: time.Now(), Port: 0},
		"unsafe port":     {Token: "TESTTOKENTESTTOKENTESTTOKE", Created: time.Now(), Port: 6000},
		"impossible port": {Token: "TESTTOKENTESTTOKENTESTTOKE", Created: time.Now(), Port: 99999},
		"negative port":   {Token: "TESTTOKENTESTTOKENTESTTOKE", Created: time.Now(), Port: -1},
		"a hostile link":  {Token: "TESTTOKENTESTTOKENTESTTOKE", Created: time.Now(), Notebook: "javascript:alert(1)"},
		"a short token":   {Token: "x", Created: time.Now()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := stateDir(t)
			kept{1, c}.write(t, dir)
			a := serve(t, dir)
			if r := a.status(); r.Port < 1024 || r.Port > 65535 || r.Port == 6000 || r.PortError != "" || r.Previous != "" {
				t.Errorf("status: %+v", r)
			}
			link := a.ask(oneNotebook)
			tokenOf(t, link)
			a.connect(link, tabtest.Knobs{})
			a.end()
		})
	}
}

// The file of a later version is not touched; this one serves beside it and
// says so.
func TestIdentityOfALaterVersion(t *testing.T) {
	dir := stateDir(t)
	const content = `{"version":2,"data":{"tokens":["A","B"]}}`
	file := filepath.Join(dir, connectionFile)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	a := serve(t, dir)
	if r := a.status(); !strings.Contains(r.Note, "version 2") || !strings.Contains(r.Note, "update") {
		t.Errorf("note: %q", r.Note)
	}
	a.connect(a.ask(oneNotebook), tabtest.Knobs{})
	a.connectAgain(otherNotebook)
	a.end()
	if now, err := os.ReadFile(file); err != nil || string(now) != content {
		t.Errorf("the file is now %q, %v", now, err)
	}
	if _, err := os.Stat(file + ".bad"); err == nil {
		t.Error("it was set aside")
	}
}

// connectAgain switches to another notebook.
func (a *agent) connectAgain(notebook string) *tabtest.FarTab {
	a.t.Helper()
	return a.connect(a.ask(notebook), tabtest.Knobs{})
}

// S4: what was loosened is tightened.
func TestIdentityModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes here")
	}
	dir := stateDir(t)
	first := serve(t, dir)
	first.connect(first.ask(oneNotebook), tabtest.Knobs{})
	first.call("run_code", args{"code": "print x"})
	first.end()
	loose := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		loose++
		if d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o666)
	})
	if err != nil || loose < 6 {
		t.Fatalf("%d loosened, %v", loose, err)
	}
	second := serve(t, dir)
	second.connect(second.ask(oneNotebook), tabtest.Knobs{})
	second.call("run_code", args{"code": "print x"})
	for _, name := range []string{"", connectionFile, "logs", "logs/colab-mcp.log", "jobs", "outputs", "temps", "transfers"} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q: %v, %v", name, fi.Mode(), err)
		}
	}
}

// tree is every file below dir with its size and time, to see that nothing
// was touched.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s %v %d %s\n", path, fi.Mode(), fi.Size(), fi.ModTime().Format(time.RFC3339Nano))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}
