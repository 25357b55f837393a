package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"colab-mcp/bridge/localtab/tabtest"
)

// startWith starts the program with this command line and environment and a
// home of its own, and shakes hands.
func startWith(t *testing.T, env []string, arguments ...string) *agent {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(binary(t), arguments...)
	cmd.Dir = home
	cmd.Env = append(environment("HOME="+home, "USERPROFILE="+home, "XDG_STATE_HOME="), env...)
	a := launch(t, filepath.Join(home, ".local", "state", "colab-mcp"), cmd)
	a.shakeHands("colab-mcp-test")
	return a
}

// freePort is a port that was free a moment ago. It stays so: the system gives
// those who ask for any port a higher one.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		if port := 20000 + rand.IntN(10000); free(port) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// Each setting takes effect, by flag and by variable, and the flag wins.
func TestSettings(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	one, two := fmt.Sprint(freePort(t)), fmt.Sprint(freePort(t))
	for _, s := range []struct {
		name, flag, env string
		value, loser    string // the variable's value when both are given
		check           func(*testing.T, *agent)
	}{
		{"state directory", "--state-dir", "COLAB_MCP_STATE_DIR", filepath.Join(dir, "s"), filepath.Join(other, "s"), func(t *testing.T, a *agent) {
			want := filepath.Join(dir, "s")
			if r := a.status(); r.StateDir != want || r.LogDir != filepath.Join(want, "logs") {
				t.Errorf("status: %+v", r)
			}
			if _, err := os.Stat(filepath.Join(want, connectionFile)); err != nil {
				t.Error(err)
			}
		}},
		{"log directory", "--log", "COLAB_MCP_LOG_DIR", filepath.Join(dir, "l"), filepath.Join(other, "l"), func(t *testing.T, a *agent) {
			if r := a.status(); r.LogDir != filepath.Join(dir, "l") {
				t.Errorf("status: %+v", r)
			}
			if log, err := os.ReadFile(filepath.Join(dir, "l", "colab-mcp.log")); err != nil || !strings.Contains(string(log), "started") {
				t.Errorf("log: %q, %v", log, err)
			}
		}},
		{"log level", "--log-level", "COLAB_MCP_LOG_LEVEL", "error", "debug", func(t *testing.T, a *agent) {
			if log := a.log(); log != "" {
				t.Errorf("logged at level error: %s", log)
			}
		}},
		{"port", "--port", "COLAB_MCP_PORT", one, two, func(t *testing.T, a *agent) {
			if r := a.status(); fmt.Sprint(r.Port) != one {
				t.Errorf("port %d, expected %s (%s)", r.Port, one, r.PortError)
			}
		}},
		{"time to accept", "--ui-timeout", "COLAB_MCP_UI_TIMEOUT", "0.2", "10m", func(t *testing.T, a *agent) {
			var got struct {
				opened
				Waited float64 `json:"waited_s"`
			}
			a.call(opener, nil).into(&got)
			if got.Result || got.State != "waiting" || got.Waited < 0.1 || got.Waited > 60 {
				t.Errorf("opened: %+v", got)
			}
		}},
		{"soft limit", "--soft-limit", "COLAB_MCP_SOFT_LIMIT", "200ms", "10m", func(t *testing.T, a *agent) {
			a.connect(a.ask(""), tabtest.Knobs{})
			var got struct {
				Status  string
				ID      string  `json:"job_id"`
				Elapsed float64 `json:"elapsed_s"`
			}
			a.call("run_code", args{"code": "hang"}).into(&got)
			if got.Status != "running" || got.ID == "" {
				t.Fatalf("run_code: %+v", got)
			}
			a.call("job_status", args{"job_id": got.ID}).into(&got)
			if got.Elapsed < 0.1 || got.Elapsed > 45 {
				t.Errorf("handed back after %v s", got.Elapsed)
			}
		}},
		{"budget of a result", "--max-output", "COLAB_MCP_MAX_OUTPUT", "1500", "9000", func(t *testing.T, a *agent) {
			a.connect(a.ask(""), tabtest.Knobs{})
			res := a.call("run_code", args{"code": strings.Repeat("print 0123456789 0123456789\n", 1000)})
			if n := utf8.RuneCountInString(res.text()); n > 1500 || n < 700 || res.IsError {
				t.Errorf("%d characters: %.300s", n, res.text())
			}
		}},
		{"browser", "--browser", "COLAB_MCP_BROWSER", "/nonexistent/firefox --new-tab", "none", func(t *testing.T, a *agent) {
			var got opened
			a.call(opener, nil).into(&got)
			if len(got.Causes) == 0 || !strings.Contains(got.Causes[0], "/nonexistent/firefox") || got.Manual == "" {
				t.Errorf("opened: %+v", got)
			}
		}},
		{"allowed directory", "--allow-dir", "COLAB_MCP_ALLOW_DIRS", dir, other, func(t *testing.T, a *agent) {
			a.connect(a.ask(""), tabtest.Knobs{})
			if res := a.call("export_notebook", args{"path": filepath.Join(other, "n.ipynb")}); res.code() != "not_allowed" {
				t.Errorf("outside: %s", res.text())
			}
			if res := a.call("export_notebook", args{"path": filepath.Join(dir, "n.ipynb"), "overwrite": true}); res.IsError {
				t.Errorf("inside: %s", res.text())
			}
		}},
		{"largest transfer", "--max-transfer", "COLAB_MCP_MAX_TRANSFER", "1KiB", "1GiB", func(t *testing.T, a *agent) {
			a.connect(a.ask(""), tabtest.Knobs{})
			big := filepath.Join(dir, "big")
			if err := os.WriteFile(big, make([]byte, 1025), 0o600); err != nil {
				t.Fatal(err)
			}
			if res := a.call("upload_file", args{"local_path": big}); res.code() != "invalid" || !strings.Contains(res.text(), "--max-transfer") {
				t.Errorf("a file of 1025 bytes: %s", res.text())
			}
		}},
	} {
		browser := []string{"--browser", "none"}
		switch s.flag {
		case "--ui-timeout":
			browser[1], _ = handedOver(t) // starts well and shows no page
		case "--browser":
			browser = nil
		}
		t.Run(s.name, func(t *testing.T) {
			for how, run := range map[string]struct{ env, args []string }{
				"flag":     {nil, []string{s.flag, s.value}},
				"variable": {[]string{s.env + "=" + s.value}, nil},
				"both":     {[]string{s.env + "=" + s.loser}, []string{s.flag + "=" + s.value}},
			} {
				t.Run(how, func(t *testing.T) {
					s.check(t, startWith(t, run.env, append(browser, run.args...)...))
				})
			}
		})
	}
}

// O5: paths are absolute whatever the working directory, and ~ is a home.
func TestSettingsPaths(t *testing.T) {
	a := startWith(t, nil, "--state-dir", "~/kept", "-l", "relative/logs")
	home := a.cmd.Dir
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	if r := a.status(); r.StateDir != filepath.Join(a.cmd.Dir, "kept") || r.LogDir != filepath.Join(home, "relative", "logs") {
		t.Errorf("status: %+v", r)
	}
}

// A program that is started without HOME has one all the same.
func TestSettingsWithoutHome(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("HOME is not Windows'")
	}
	cmd := exec.Command(binary(t), "logs")
	cmd.Env = environment("HOME=", "XDG_STATE_HOME=")
	said, _ := cmd.CombinedOutput() // the user's own log, if there is one
	if want := filepath.Join("~", ".local", "state", "colab-mcp", "logs"); runtime.GOOS == "linux" && !strings.Contains(string(said), want) {
		t.Errorf("expected %s: %.300s", want, said)
	}
}

// Several allowed directories: a repeated flag, or a path list.
func TestSettingsAllowSeveralDirectories(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for how, a := range map[string]*agent{
		"flags": startWith(t, nil, "--browser", "none", "--allow-dir", one, "--allow-dir", two),
		"list":  startWith(t, []string{"COLAB_MCP_ALLOW_DIRS=" + one + string(os.PathListSeparator) + two}, "--browser", "none"),
	} {
		a.connect(a.ask(""), tabtest.Knobs{})
		for _, dir := range []string{one, two} {
			if res := a.call("export_notebook", args{"path": filepath.Join(dir, how+".ipynb")}); res.IsError {
				t.Errorf("%s: %s", how, res.text())
			}
		}
		if res := a.call("export_notebook", args{"path": filepath.Join(t.TempDir(), "n.ipynb")}); res.code() != "not_allowed" {
			t.Errorf("%s, outside: %s", how, res.text())
		}
	}
}

// A variable that is there and empty, as clients' templates make it, is none.
func TestSettingsEmptyVariableIsNone(t *testing.T) {
	var env []string
	for _, name := range []string{"STATE_DIR", "LOG_DIR", "LOG_LEVEL", "PORT", "TOKEN_MAX_AGE_DAYS", "UI_TIMEOUT", "SOFT_LIMIT", "AUTO_REOPEN", "MAX_OUTPUT", "BROWSER", "ALLOW_DIRS", "MAX_TRANSFER"} {
		env = append(env, "COLAB_MCP_"+name+"=")
	}
	a := startWith(t, env)
	if r := a.status(); r.StateDir != a.StateDir || r.Port == 0 {
		t.Errorf("status: %+v", r)
	}
}

// A bad value is one line on stderr that names the flag, and status 2.
func TestSettingsBadValues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		flag, env string
		values    []string
	}{
		{"--port", "COLAB_MCP_PORT", []string{"0", "-1", "65536", "x", "80.5", "6000", "10080"}},
		{"--log-level", "COLAB_MCP_LOG_LEVEL", []string{"loud", "INFO "}},
		{"--ui-timeout", "COLAB_MCP_UI_TIMEOUT", []string{"0", "-5", "soon", "NaN", "1e300", "5 s"}},
		{"--soft-limit", "COLAB_MCP_SOFT_LIMIT", []string{"0s", "-1s", "Inf"}},
		{"--token-max-age-days", "COLAB_MCP_TOKEN_MAX_AGE_DAYS", []string{"-1", "1.5", "month"}},
		{"--auto-reopen", "COLAB_MCP_AUTO_REOPEN", []string{"maybe", "2"}},
		{"--max-output", "COLAB_MCP_MAX_OUTPUT", []string{"-1", "30k"}},
		{"--browser", "COLAB_MCP_BROWSER", []string{"'open", `open \`, "  "}},
		{"--allow-dir", "COLAB_MCP_ALLOW_DIRS", []string{"/nonexistent", file}},
		{"--max-transfer", "COLAB_MCP_MAX_TRANSFER", []string{"0", "-1", "2GB ", "lots", "9999999TiB"}},
		{"--ephemeral", "", []string{"maybe"}},
		{"--rotate-token", "", []string{"x"}},
		{"--nonsense", "", []string{"1"}},
	} {
		for _, value := range bad.values {
			wrongCommand(t, bad.flag, nil, bad.flag+"="+value)
			if bad.env != "" {
				wrongCommand(t, bad.flag, []string{bad.env + "=" + value})
			}
		}
	}
	for _, flag := range []string{"--state-dir", "--port", "--browser"} {
		wrongCommand(t, flag, nil, flag) // and no value
	}
	wrongCommand(t, "nonsense", nil, "nonsense")
	// A command that has no use for a flag of the server's says so.
	wrongCommand(t, "--port", nil, "demo", "--port=8765")
	wrongCommand(t, "--browser", nil, "tab", "--browser=none", "https://colab.research.google.com/#mcpProxyToken=x&mcpProxyPort=1")
	wrongCommand(t, "--ephemeral", nil, "--ephemeral", "version")
}

func wrongCommand(t *testing.T, named string, env []string, arguments ...string) {
	t.Helper()
	cmd := exec.Command(binary(t), arguments...)
	cmd.Env = environment(append(env, "HOME="+t.TempDir(), "XDG_STATE_HOME=")...)
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	line := errs.String()
	if status := cmd.ProcessState.ExitCode(); status != 2 || out.String() != "" || strings.Count(line, "\n") != 1 || !strings.Contains(line, named) {
		t.Errorf("%q %q: status %d, stdout %q, stderr %q", env, arguments, status, out.String(), line)
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	out, errs, status := program(t, t.TempDir(), "--help")
	if status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	for _, flag := range []string{"--state-dir", "--log", "-l,", "--log-level", "--port", "--ephemeral", "--rotate-token", "--token-max-age-days", "--ui-timeout",
		"--soft-limit", "auto-reopen", "--max-output", "--browser", "--allow-dir", "--max-transfer", "--version",
		"COLAB_MCP_STATE_DIR", "COLAB_MCP_LOG_DIR", "COLAB_MCP_PORT", "COLAB_MCP_TOKEN_MAX_AGE_DAYS", "COLAB_MCP_UI_TIMEOUT", "COLAB_MCP_SOFT_LIMIT",
		"COLAB_MCP_AUTO_REOPEN", "COLAB_MCP_MAX_OUTPUT", "COLAB_MCP_BROWSER", "COLAB_MCP_ALLOW_DIRS"} {
		if !strings.Contains(out, flag) {
			t.Errorf("--help says nothing of %s", flag)
		}
	}
	for _, command := range []string{"demo", "tab", "install", "version"} {
		if !strings.Contains(out, "\n  "+command+" ") {
			t.Errorf("--help says nothing of the command %s", command)
		}
		if out, _, status := program(t, t.TempDir(), command, "--help"); status != 0 || !strings.Contains(out, "Usage: colab-mcp "+command) {
			t.Errorf("%s --help: status %d\n%s", command, status, out)
		}
	}
}

func TestVersionNamesCommitAndGo(t *testing.T) {
	for _, arg := range []string{"--version", "version"} {
		out, errs, status := program(t, t.TempDir(), arg)
		if status != 0 || errs != "" || !strings.HasPrefix(out, "colab-mcp ") || !strings.Contains(out, "commit ") || !strings.Contains(out, runtime.Version()) {
			t.Errorf("%s: status %d, %q, %q", arg, status, out, errs)
		}
	}
}
