package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"colab-mcp/bridge/localtab"
)

// demoRun plays demo in a home of its own.
func demoRun(t *testing.T, env []string, arguments ...string) (stdout, stderr string, status int) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(binary(t), append([]string{"demo"}, arguments...)...)
	cmd.Dir = home
	cmd.Env = append(environment("HOME="+home, "USERPROFILE="+home, "XDG_STATE_HOME="), env...)
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	if left, _ := filepath.Glob(filepath.Join(home, ".local", "state", "*")); len(left) != 0 {
		t.Errorf("demo has kept %q", left)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// plainPython is a Python without a real kernel.
func plainPython(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3", "python"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "-c", "import sys; sys.version_info >= (3, 8) or sys.exit(1)").Run() == nil &&
			exec.Command(path, "-c", "import ipykernel").Run() != nil {
			return path
		}
	}
	t.Skip("every Python here has ipykernel")
	return ""
}

// The main job goes well on either kernel and a person can follow it.
func TestDemo(t *testing.T) {
	for name, python := range map[string]func(*testing.T) string{
		"real kernel":  func(t *testing.T) string { return kernelPython(t) },
		"plain Python": plainPython,
		"whatever there is": func(t *testing.T) string {
			if _, err := localtab.FindPython(""); err != nil {
				requireReal(t, "no python3")
			}
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			var arguments []string
			if p := python(t); p != "" {
				arguments = []string{"--python", p}
			}
			out, errs, status := demoRun(t, nil, arguments...)
			if status != 0 || strings.Contains(errs, "demo:") {
				t.Fatalf("status %d\n%s%s", status, out, errs)
			}
			at := 0
			for _, shown := range []string{
				"1. ", "→ open_colab_browser_connection", `"state":"ready"`,
				"2. ", "→ add_code_cell", "newCellId",
				"3. ", "→ get_notebook_outline", "[2] code", "print('sum', sum(squares))",
				"4. ", "→ run_cells", "28.5",
				"5. ", "→ run_code", "picture: png",
				"6. ", "IndexError",
				"7. ", "[2] code",
				"All went well",
			} {
				i := strings.Index(out[at:], shown)
				if i < 0 {
					t.Fatalf("after byte %d it does not show %q:\n%s", at, shown, out)
				}
				at += i
			}
			if strings.Contains(out+errs, "mcpProxyToken") {
				t.Error("a token is shown")
			}
		})
	}
}

// Without Python it says what to install, and nothing is claimed to have gone
// well.
func TestDemoWithoutPython(t *testing.T) {
	for name, c := range map[string]struct{ env, args []string }{
		"a name that is none":      {nil, []string{"--python", "/nonexistent"}},
		"a variable that is wrong": {[]string{"COLAB_MCP_PYTHON=/nonexistent"}, nil},
		"no Python at all":         {[]string{"PATH=" + t.TempDir(), "COLAB_MCP_PYTHON=python3"}, nil},
		"another program":          {nil, []string{"--python", binary(t)}},
	} {
		out, errs, status := demoRun(t, c.env, c.args...)
		if status != 1 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "apt install python3") || strings.Contains(out, "well") {
			t.Errorf("%s: status %d\n%s%s", name, status, out, errs)
		}
	}
}

// A Python that does not get to run a cell fails the demo, which says at which
// step.
func TestDemoThatFails(t *testing.T) {
	script := filepath.Join(t.TempDir(), "python3")
	// Good enough to be chosen, and gone when it is needed.
	write(t, script, "#!/bin/sh\n[ \"$1\" = -c ] && exit 3\nexit 1\n", 0o700)
	out, errs, status := demoRun(t, nil, "--python", script)
	if status != 1 || !strings.Contains(errs, "demo: step 4") || strings.Contains(out, "All went well") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}
