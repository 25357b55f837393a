package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// examined runs doctor --json and returns its checks by name, and the exit
// status.
func examined(t *testing.T, home string, args ...string) (map[string]check, int) {
	t.Helper()
	out, errs, status := program(t, home, append([]string{"doctor", "--json"}, args...)...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("not one JSON object: %v\n%s%s", err, out, errs)
	}
	checks := map[string]check{}
	worst := fine
	for _, c := range r.Checks {
		checks[c.Name] = c
		switch {
		case c.Detail == "":
			t.Errorf("%s says nothing", c.Name)
		case c.Verdict != fine && c.Cure == "":
			t.Errorf("%s names no cure: %s", c.Name, c.Detail)
		}
		if c.Verdict == failing || c.Verdict == doubt && worst == fine {
			worst = c.Verdict
		}
	}
	if r.Verdict != worst || (status == 1) != (worst == failing) {
		t.Errorf("verdict %s, status %d, worst %s", r.Verdict, status, worst)
	}
	return checks, status
}

// wants checks one check.
func (c check) wants(t *testing.T, v verdict, words string) {
	t.Helper()
	if c.Verdict != v || !strings.Contains(c.Detail+" → "+c.Cure, words) {
		t.Errorf("%s: wanted %s with %q, got %s: %s → %s", c.Name, v, words, c.Verdict, c.Detail, c.Cure)
	}
}

// files lists all below dir, with modes.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); strings.HasPrefix(name, ".tmp-") && !strings.HasPrefix(name, ".tmp-doctor") {
			return nil // the server is saving
		}
		fi, err := e.Info()
		list = append(list, fmt.Sprint(strings.TrimPrefix(path, dir), " ", fi.Mode()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestDoctorOnAFreshMachineFindsNothingWrongAndLeavesNothing(t *testing.T) {
	home := t.TempDir()
	checks, status := examined(t, home)
	if status != 0 {
		t.Errorf("%v", checks)
	}
	for _, name := range []string{"program", "loopback", "handshake", "port", "state", "identity", "log"} {
		checks[name].wants(t, fine, "")
	}
	checks["agent"].wants(t, doubt, "colab-mcp install gemini|windsurf|claude|codex|opencode")
	if left := files(t, home); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	file := filepath.Join(home, "file")
	os.WriteFile(file, nil, 0o600)
	checks, _ = examined(t, home, "--state-dir", filepath.Join(file, "state", "deep"))
	checks["state"].wants(t, failing, "name another --state-dir")
}

// L12
func TestDoctorDisturbsNoRunningServer(t *testing.T) {
	home := t.TempDir()
	a := launchAgent(t, filepath.Join(home, "state"))
	a.shakeHands("test")
	before := files(t, a.StateDir)
	checks, _ := examined(t, home, "--state-dir", a.StateDir)
	checks["state"].wants(t, fine, fmt.Sprintf("process %d", a.cmd.Process.Pid))
	checks["port"].wants(t, fine, "")
	if runtime.GOOS == "linux" {
		checks["port"].wants(t, fine, "is the running server's")
	}
	if after := files(t, a.StateDir); !slices.Equal(before, after) {
		t.Errorf("the state directory went from %v to %v", before, after)
	}
	var status struct {
		Instance string
		Blocked  int `json:"blocked_connects"`
	}
	a.call("colab_connection_status", nil).into(&status)
	if status.Instance != "primary" || status.Blocked != 0 {
		t.Errorf("%+v", status)
	}
}

// L13
func TestDoctorNamesWhoHasThePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	checks, _ := examined(t, t.TempDir(), "--port", fmt.Sprint(port))
	checks["port"].wants(t, failing, fmt.Sprintf("%d is taken by", port))
	if runtime.GOOS == "linux" {
		checks["port"].wants(t, failing, fmt.Sprintf("process %d (", os.Getpid()))
	}
}

// S4
func TestDoctorSeesWhatOthersMayRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes on Windows")
	}
	home := t.TempDir()
	a := launchAgent(t, filepath.Join(home, "state"))
	a.shakeHands("test")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	checks, _ := examined(t, home, "--state-dir", a.StateDir)
	checks["state"].wants(t, fine, "is private")
	checks["identity"].wants(t, fine, " old of 30 days")
	os.Chmod(filepath.Join(a.StateDir, connectionFile), 0o644)
	checks, _ = examined(t, home, "--state-dir", a.StateDir)
	checks["state"].wants(t, doubt, "chmod")
	os.Chmod(a.StateDir, 0o755)
	checks, _ = examined(t, home, "--state-dir", a.StateDir)
	checks["state"].wants(t, failing, "--rotate-token")
}

// L12
func TestDoctorLeavesADamagedIdentityWhereItIs(t *testing.T) {
	home := t.TempDir()
	state := filepath.Join(home, "state")
	os.MkdirAll(filepath.Join(state, "logs"), 0o700)
	os.WriteFile(filepath.Join(state, connectionFile), []byte(`{"version":1,`), 0o600)
	os.WriteFile(filepath.Join(state, "logs", "colab-mcp.log"), []byte("time=2026-01-02T00:00:00.000000Z level=ERROR msg=\"not listening\"\ntime=2026-01-02T00:00:01.000000Z level=INFO msg=stopped\n"), 0o600)
	before := files(t, state)
	checks, _ := examined(t, home, "--state-dir", state)
	checks["identity"].wants(t, doubt, "is damaged")
	checks["log"].wants(t, doubt, `level=ERROR msg="not listening"`)
	if after := files(t, state); !slices.Equal(before, after) {
		t.Errorf("the state directory went from %v to %v", before, after)
	}
	os.WriteFile(filepath.Join(state, connectionFile), []byte(`{"version":9,"data":{}}`), 0o600)
	checks, _ = examined(t, home, "--state-dir", state)
	checks["identity"].wants(t, failing, "Update")

	ahead := time.Now().Add(time.Hour + time.Minute)
	kept{1, connection{"TESTTOKENTESTTOKENTESTTOKE", ahead, freePort(t), ""}}.write(t, state)
	checks, _ = examined(t, home, "--state-dir", state)
	checks["identity"].wants(t, fine, "token made 1 hour from now")
}

func TestDoctorReadsTheClientsConfiguration(t *testing.T) {
	home := t.TempDir()
	write := func(text string, path ...string) {
		name := filepath.Join(append([]string{home}, path...)...)
		os.MkdirAll(filepath.Dir(name), 0o700)
		os.WriteFile(name, []byte(text), 0o600)
	}
	// The command is the program by its name on the PATH, a symlink in tests.
	write(`{"mcpServers": {"x": {"command": "colab-mcp", "timeout": 60000}}}`, ".gemini", "settings.json")
	write(`{"mcpServers": {"x": {"command": "colab-mcp", "disabled": true}}}`, ".codeium", "windsurf", "mcp_config.json")
	write(`{"mcpServers": {"x": {"command": "/no/such/colab-mcp"}}}`, ".claude.json")
	write("[mcp_servers.x]\ncommand = \"colab-mcp\"\ntool_timeout_sec = 61\nenv_vars = [\"DISPLAY\"]\n", ".codex", "config.toml")
	write(`{"mcp": {"x": {"command": ["colab-mcp"], "timeout": 5000}}}`, ".config", "opencode", "opencode.json")
	checks, _ := examined(t, home)
	checks["Gemini CLI"].wants(t, failing, "gives up after 1m0s")
	checks["Windsurf"].wants(t, doubt, "switched off")
	checks["Claude Code"].wants(t, failing, "starts /no/such/colab-mcp")
	checks["Codex"].wants(t, fine, "timeout of a call: 1m1s")
	checks["opencode"].wants(t, failing, "gives up after 5s")

	checks, _ = examined(t, home, "--ui-timeout", "90")
	checks["Codex"].wants(t, failing, "gives up after 1m1s")

	for _, name := range []string{"gemini", "claude", "codex", "opencode"} {
		if _, errs, status := program(t, home, "install", name, "--ui-timeout", "90"); status != 0 {
			t.Errorf("install %s: %s", name, errs)
		}
	}
	checks, _ = examined(t, home, "--ui-timeout", "90")
	for _, title := range []string{"Gemini CLI", "Claude Code", "Codex", "opencode"} {
		checks[title].wants(t, fine, "starts this program")
	}

	// What the entry gives its server counts, and install follows it.
	for _, own := range []string{`"args": ["--ui-timeout", "10m"]`, `"args": ["--soft-limit=600"]`, `"env": {"COLAB_MCP_UI_TIMEOUT": "600"}`} {
		write(`{"mcpServers": {"x": {"command": "colab-mcp", "timeout": 300000, `+own+`}}}`, ".gemini", "settings.json")
		checks, _ = examined(t, home)
		checks["Gemini CLI"].wants(t, failing, "a call may take 10m0s")
		program(t, home, "install", "gemini")
		checks, _ = examined(t, home)
		checks["Gemini CLI"].wants(t, fine, "timeout of a call: 11m0s")
	}
	write(`{"mcpServers": {"x": {"command": "colab-mcp", "timeout": 50000, "args": ["--ui-timeout", "20"]}}}`, ".gemini", "settings.json")
	write(`{"mcpServers": {"colab": {"command": "another"}}}`, ".claude.json")
	checks, _ = examined(t, home)
	checks["Gemini CLI"].wants(t, fine, "timeout of a call: 50s")
	checks["Claude Code"].wants(t, doubt, `"colab" in ~/.claude.json is another server: another`)

	other := filepath.Join(home, "bin", "colab-mcp")
	write("#!/bin/sh\n", "bin", "colab-mcp")
	os.Chmod(other, 0o700)
	write(fmt.Sprintf(`{"mcpServers": {"x": {"command": %q}}}`, other), ".gemini", "settings.json")
	write(`{"mcp`, ".claude.json")
	checks, _ = examined(t, home)
	checks["Gemini CLI"].wants(t, doubt, "another program")
	checks["Claude Code"].wants(t, failing, "it is not JSON")
}

func TestDoctorPrintsForPeople(t *testing.T) {
	home := t.TempDir()
	out, errs, status := program(t, home, "doctor", "--browser", "/no/such/browser")
	if status != 0 || errs != "" {
		t.Errorf("%d %s", status, errs)
	}
	for _, want := range []string{
		"  ok    loopback      127.0.0.1:",
		"  warn  browser       browser command \"/no/such/browser\"",
		"\n                      → Name one that works",
		" checks, 0 failed, ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
