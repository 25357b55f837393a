package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

// L14: whatever ends the program, with a tab connected and a cell running, the
// tab is told, the port is free, the state is kept, and what became of the
// cell is found when the notebook is back.
func TestEnd(t *testing.T) {
	for _, how := range []struct {
		name string
		end  func(*agent) error
	}{
		{"stdin closed", (*agent).close},
		{"SIGINT", func(a *agent) error { return a.signal(os.Interrupt) }},
		{"SIGTERM", func(a *agent) error { return a.signal(syscall.SIGTERM) }},
	} {
		t.Run(how.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && how.name != "stdin closed" {
				t.Skip("no signals here")
			}
			dir := portDir(t)
			a := serve(t, dir)
			link := a.ask(oneNotebook)
			var k tabtest.Kernel
			began, finish := make(chan struct{}), make(chan struct{})
			k.On("long", func(ctx context.Context, _ string, s tabtest.Screen) {
				s.Write("begun\n")
				close(began)
				select {
				case <-finish:
				case <-ctx.Done():
				}
				s.Write("ended\n")
			})
			tab := a.connect(link, tabtest.Knobs{Options: localtab.Options{Kernel: &k}})
			cell := addCode(a, "long")
			foreground := a.begin("run_cells", args{"cell_ids": []string{cell}})
			await(t, began, "the cell runs")
			var list struct{ Jobs []job }
			a.call("list_jobs", nil).into(&list)
			port := a.status().Port

			if err := how.end(a); err != nil {
				t.Fatalf("%v\n%s", err, a.stderr)
			}
			if code, reason := hungUp(t, tab); code != 1001 || reason == "" {
				t.Errorf("the tab was closed with %d %q", code, reason)
			}
			<-foreground.done
			for _, address := range []string{"127.0.0.1", "::1"} {
				l, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
				if err != nil && address == "127.0.0.1" {
					t.Errorf("the port is not free: %v", err)
				}
				if err == nil {
					l.Close()
				}
			}

			b := serve(t, dir)
			if r := b.status(); r.Port != port || r.Previous != oneNotebook || r.Instance != "primary" {
				t.Errorf("after the restart: %+v", r)
			}
			if len(list.Jobs) != 1 {
				t.Fatalf("jobs: %+v", list.Jobs)
			}
			id := list.Jobs[0].ID
			var j job
			if b.call("job_status", args{"job_id": id}).into(&j); j.Status != "lost" {
				t.Errorf("the job after the restart: %+v", j)
			}
			close(finish) // the notebook's kernel went on
			tab = b.connect(link, tabtest.Knobs{Reuse: tab})
			waitFor(t, "the cell has ended", func() bool {
				return strings.Contains(string(b.call("get_cells", args{"includeOutputs": true}).Raw), "ended")
			})
			tab.Close() // perhaps it was back too early
			b.until("the tab has left", func(r connReport) bool { return !r.Connected })
			b.connect(link, tabtest.Knobs{Reuse: tab})
			waitFor(t, "the job is found", func() bool {
				b.call("job_status", args{"job_id": id}).into(&j)
				return j.Status != "lost"
			})
			if j.Status != "done" || len(j.Cells) != 1 || j.Cells[0].Stdout != "begun\nended\n" {
				t.Errorf("the job with the notebook back: %+v", j)
			}
			if ran := len(k.Ran()); ran != 1 {
				t.Errorf("%d executions", ran)
			}
		})
	}
}

// await waits for a channel that another part of the test closes.
func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("not in %v: %s", patience, what)
	}
}

// L14: the end comes too while the program waits for its user.
func TestEndWhileATabIsWaitedFor(t *testing.T) {
	browser, links := handedOver(t)
	a := startAgent(t, "--browser", browser)
	opening := a.begin(opener, nil)
	<-links
	a.end()
	<-opening.done
}

// O3: a browser that stays in the foreground keeps neither the answer nor the
// end from coming, and lives on.
func TestEndLeavesTheBrowserAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	script := filepath.Join(t.TempDir(), "browser")
	pidFile := script + ".pid"
	// It prints, notes its process id, and stays.
	write(t, script, fmt.Sprintf("#!/bin/sh\necho noise\necho noise >&2\necho $$ > '%[1]s.tmp'\nmv '%[1]s.tmp' '%[1]s'\nexec sleep 600\n", pidFile), 0o700)
	a := startAgent(t, "--browser", script, "--ui-timeout", "0.1")
	var got opened
	if a.call(opener, nil).into(&got); got.Result || got.State != "waiting" {
		t.Errorf("opened: %+v", got)
	}
	var pid int
	waitFor(t, "the browser", func() bool {
		raw, err := os.ReadFile(pidFile)
		return err == nil && json.Unmarshal(raw, &pid) == nil
	})
	browser, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer browser.Kill()
	a.end()
	if err := browser.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the browser has ended with us: %v", err)
	}
	if strings.Contains(a.stderr.String(), "noise") {
		t.Error("the browser writes to our stderr")
	}
}

func write(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// L14: colab-mcp < /dev/null ends well.
func TestEndWithoutInput(t *testing.T) {
	cmd := exec.Command(binary(t), "--state-dir", stateDir(t))
	cmd.Env = environment() // no Stdin: the null device
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) != 0 {
		t.Errorf("%v, %q", err, out)
	}
}

// L14: a client that closes our stdout and leaves stdin open has gone or not;
// neither a signal nor a busy loop comes of it.
func TestEndOfTheReader(t *testing.T) {
	cmd := exec.Command(binary(t), "--state-dir", stateDir(t), "--browser", "none")
	cmd.Env = environment()
	var errs lockedBuffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer kill.Stop()
	io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`+"\n")
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	for id := range 20 { // until it sees that nobody reads; then stdin breaks
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", id+2); err != nil {
			break
		}
	}
	in.Close()
	err = cmd.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		t.Errorf("it died of %v", ws.Signal())
	}
	if err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
	if used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); used > 20*time.Second {
		t.Errorf("it used %v of the processor", used)
	}
}

// I1: what is wrong with a directory or a port is told through MCP; stdout
// stays JSON-RPC, which the agent checks of every line.
func TestServesWithoutWhatItCannotHave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "", 0o600)
	below := filepath.Join(file, "below") // no user, root included, can make this
	full := stateDir(t)
	write(t, filepath.Join(full, connectionFile), "{", 0o600)
	for _, c := range []struct {
		name   string
		args   []string
		says   string // in the status
		stderr string
	}{
		{"log directory", []string{"--state-dir", stateDir(t), "--log", below}, "", "log"},
		{"state directory", []string{"--state-dir", below, "--log", filepath.Join(t.TempDir(), "l")}, "state directory cannot be used", ""},
		{"both", []string{"--state-dir", below}, "state directory cannot be used", "log"},
		{"damaged state", []string{"--state-dir", full}, "", ""},
		{"folder of others", []string{"--state-dir", openFolder(t)}, "chmod 700", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := startWith(t, nil, append(c.args, "--browser", "none")...)
			if r := a.status(); !strings.Contains(r.Note, c.says) || c.says == "" && r.Note != "" {
				t.Errorf("note: %q", r.Note)
			}
			a.connect(a.ask(oneNotebook), tabtest.Knobs{})
			var ran struct{ Status, Stdout string }
			if a.call("run_code", args{"code": "print fine"}).into(&ran); ran.Stdout != "fine\n" {
				t.Errorf("run_code: %+v", ran)
			}
			a.end()
			if errs := a.stderr.String(); strings.Contains(errs, c.stderr) != true || c.stderr == "" && errs != "" || strings.Count(errs, "\n") > 1 {
				t.Errorf("stderr: %q", errs)
			}
		})
	}
}

// openFolder is open to other users and has a file of theirs.
func openFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "theirs"), "", 0o644)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// I2: whatever comes on stdin that is no message, the session lives.
func TestServesAfterBadLines(t *testing.T) {
	a := startAgent(t, "--browser", "none")
	for _, line := range []string{"hello\n", "{\"jsonrpc\":\n", "[1]\n", "{\"a\":1}\n", "\n", "\r\n", "\xef\xbb\xbf\n", "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}\n", "\xff\xfe\n", "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"result\":{}}\n"} {
		if _, err := io.WriteString(a.in, line); err != nil {
			t.Fatal(err)
		}
		if r := a.status(); r.PID != a.cmd.Process.Pid {
			t.Errorf("after %q: %+v", line, r)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var strange []string // answers to what nobody can match are right here
	for _, line := range a.strange {
		if !strings.Contains(line, `"error"`) {
			strange = append(strange, line)
		}
	}
	a.strange = strange
}

// I3: a line of several MiB is a line like any other.
func TestServesLongLines(t *testing.T) {
	a := startAgent(t, "--browser", "none")
	if res := a.call("add_code_cell", args{"code": strings.Repeat("x", 6<<20)}); res.code() != "no_tab" {
		t.Errorf("6 MiB and no tab: %s", res.text())
	}
	tab := a.connect(a.ask(""), tabtest.Knobs{})
	code := strings.Repeat("# é\n", 1<<18)
	addCode(a, code)
	var sent struct{ Code string }
	calls := tab.Calls("add_code_cell")
	if len(calls) != 1 || json.Unmarshal(calls[0].Args, &sent) != nil || sent.Code != code {
		t.Errorf("%d cells added, of %d bytes", len(calls), len(sent.Code))
	}
}
