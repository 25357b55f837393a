package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
)

// tabProcess is a running colab-mcp tab.
type tabProcess struct {
	t      testing.TB
	cmd    *exec.Cmd
	stderr lockedBuffer
	ended  error
}

// startTab follows a link with the program's own stand-in for a page.
func startTab(t testing.TB, link string, arguments ...string) *tabProcess {
	t.Helper()
	return startTabIn(t, "", link, arguments...)
}

// startTabIn is startTab with a working directory, which is that of the cells.
func startTabIn(t testing.TB, dir, link string, arguments ...string) *tabProcess {
	t.Helper()
	p := &tabProcess{t: t, cmd: exec.Command(binary(t), append([]string{"tab", link}, arguments...)...)}
	p.cmd.Dir, p.cmd.Env = dir, environment()
	p.cmd.Stderr, p.cmd.Stdout = &p.stderr, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
	})
	return p
}

// end waits for the process.
func (p *tabProcess) end() error {
	if p.cmd.ProcessState == nil {
		kill := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
		defer kill.Stop()
		p.ended = p.cmd.Wait()
	}
	return p.ended
}

// somePython skips a test where no cell can run.
func somePython(t testing.TB) {
	t.Helper()
	if _, err := localtab.FindPython(""); err != nil {
		requireReal(t, err.Error())
	}
}

func (a *agent) tabIsThere() {
	a.t.Helper()
	a.until("a tab that is ready", func(r connReport) bool { return r.Connected })
}

// The stand-in serves a notebook file, which is made, and saves what happens
// to it; another one goes on with it.
func TestTabServesAFile(t *testing.T) {
	somePython(t)
	file := filepath.Join(t.TempDir(), "n.ipynb")
	a := serve(t, stateDir(t))
	first := startTab(t, a.ask(oneNotebook), "--notebook", file, "--plain")
	a.tabIsThere()
	id := addCode(a, "x = 6 * 7\nprint('answer', x)")
	a.call("run_cells", args{"cell_ids": []string{id}})
	a.call("add_text_cell", args{"content": "# A title"})
	link := a.ask(otherNotebook) // hangs up on it
	if err := first.end(); err == nil || !strings.Contains(first.stderr.String(), "4001") {
		t.Errorf("the first tab, whose link was retired: %v\n%s", err, first.stderr.String())
	}

	var saved struct {
		Format int `json:"nbformat"`
		Cells  []struct {
			ID, Type string
			Source   json.RawMessage
			Count    *int `json:"execution_count"`
			Outputs  []struct{ Text json.RawMessage }
		}
	}
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &saved)
	}
	if err != nil || saved.Format != 4 || len(saved.Cells) != 3 {
		t.Fatalf("%v\n%s", err, raw)
	}
	c := saved.Cells[1]
	if c.ID != id || c.Count == nil || len(c.Outputs) != 1 || !strings.Contains(string(c.Outputs[0].Text), "answer 42") {
		t.Errorf("the cell in the file: %+v", c)
	}

	second := startTab(t, link, "--notebook", file, "--plain")
	a.tabIsThere()
	o := outlineOf(a)
	if o.Total != 3 || o.Cells[1].ID != id || o.Cells[1].Count == nil {
		t.Errorf("opened again: %+v", o)
	}
	a.end() // a server that ends is no failure of its tab
	if err := second.end(); err != nil {
		t.Errorf("the second tab: %v\n%s", err, second.stderr.String())
	}
}

// A link that leads nowhere is told in words that do not show its token.
func TestTabBadLink(t *testing.T) {
	somePython(t)
	a := serve(t, stateDir(t))
	link := a.ask(oneNotebook)
	const secret = "SECRETSECRETSECRETSECRET26"
	nobody := freePort(t)
	for name, c := range map[string]struct{ link, says string }{
		"not a link":       {"hello", "not a link of colab-mcp"},
		"no fragment":      {oneNotebook, "mcpProxyToken is missing"},
		"no port":          {oneNotebook + "#mcpProxyToken=" + secret, "mcpProxyPort"},
		"impossible port":  {oneNotebook + "#mcpProxyToken=" + secret + "&mcpProxyPort=99999", "mcpProxyPort"},
		"nobody listening": {oneNotebook + "#mcpProxyToken=" + secret + "&mcpProxyPort=" + fmt.Sprint(nobody), "refused"},
		"wrong token":      {strings.Replace(link, tokenOf(t, link), secret, 1), "403"},
		"not a URL":        {"https://colab.research.google.com/%zz#mcpProxyToken=" + secret, "not a URL"},
	} {
		p := startTab(t, c.link)
		err := p.end()
		said := p.stderr.String()
		if err == nil || p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, c.says) || strings.Contains(said, secret) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: %v, %q", name, err, said)
		}
	}
	for _, arguments := range [][]string{{"--notebook", "/nonexistent/dir/n.txt"}, {"--python", "/nonexistent"}} {
		p := startTab(t, link, arguments...)
		if err := p.end(); err == nil || p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(p.stderr.String(), arguments[1]) {
			t.Errorf("%q: %v, %q", arguments, err, p.stderr.String())
		}
	}
}

// SIGINT interrupts the cell that runs, on either kernel, and the tab goes on;
// SIGTERM ends it.
func TestTabInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals here")
	}
	for name, arguments := range map[string]func(*testing.T) []string{
		"real kernel":  func(t *testing.T) []string { return []string{"--python", kernelPython(t)} },
		"plain Python": func(t *testing.T) []string { somePython(t); return []string{"--plain"} },
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, stateDir(t))
			tab := startTab(t, a.ask(oneNotebook), arguments(t)...)
			a.tabIsThere()
			mark := filepath.Join(t.TempDir(), "begun")
			code, _ := json.Marshal(mark)
			run := a.begin("run_code", args{"code": "open(" + string(code) + ", 'w').close()\nimport time\nwhile True: time.sleep(1)"})
			waitFor(t, "the cell runs", func() bool { _, err := os.Stat(mark); return err == nil })
			tab.cmd.Process.Signal(os.Interrupt)
			var got struct {
				Status string
				Error  struct{ Name string }
				Stdout string
			}
			if run.answer().into(&got); got.Status != "error" || got.Error.Name != "KeyboardInterrupt" {
				t.Errorf("interrupted: %+v", got)
			}
			if a.call("run_code", args{"code": "print('on')"}).into(&got); got.Stdout != "on\n" {
				t.Errorf("the next cell: %+v", got)
			}
			tab.cmd.Process.Signal(syscall.SIGTERM)
			if err := tab.end(); err != nil {
				t.Errorf("after SIGTERM: %v\n%s", err, tab.stderr.String())
			}
			a.until("the end of the tab", func(r connReport) bool { return !r.Connected })
		})
	}
}
