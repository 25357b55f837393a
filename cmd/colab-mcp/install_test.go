package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// want is the entry that these tests install: a program that is not this one,
// so that nothing depends on where the test binary is.
func want() wanted { return wanted{name: "colab", command: "/opt/colab-mcp", patience: time.Minute} }

func TestInstallKeepsEveryOtherByte(t *testing.T) {
	for name, c := range map[string]struct{ client, before, after string }{
		"no file": {"gemini", "", `{
  "mcpServers": {
    "colab": {
      "command": "/opt/colab-mcp",
      "timeout": 300000
    }
  }
}
`},
		"comments, tabs, CRLF and trailing commas": {"gemini",
			"{\r\n\t// mine\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\"command\": \"x\"}, // note\r\n\t},\r\n\t\"n\": 1e400,\r\n}",
			"{\r\n\t// mine\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\"command\": \"x\"}, // note\r\n\t\t\"colab\": {\r\n\t\t\t\"command\": \"/opt/colab-mcp\",\r\n\t\t\t\"timeout\": 300000\r\n\t\t},\r\n\t},\r\n\t\"n\": 1e400,\r\n}"},
		"a comment behind the last member": {"windsurf",
			"{\n    \"mcpServers\": {\n        \"a\": {\"command\": \"x\"} // last\n    }\n}\n",
			"{\n    \"mcpServers\": {\n        \"a\": {\"command\": \"x\"}, // last\n        \"colab\": {\n            \"command\": \"/opt/colab-mcp\"\n        }\n    }\n}\n"},
		"numbers and escapes of others": {"claude",
			`{"projects":{"/p":{"n":12345678901234567890,"s":"<&>\u00e9"}}}`,
			`{"projects":{"/p":{"n":12345678901234567890,"s":"<&>\u00e9"}},` + `
  "mcpServers": {
    "colab": {
      "command": "/opt/colab-mcp",
      "timeout": 300000,
      "type": "stdio"
    }
  }
}`},
		"a byte order mark": {"windsurf", "\ufeff{}\n", "\ufeff{\n  \"mcpServers\": {\n    \"colab\": {\n      \"command\": \"/opt/colab-mcp\"\n    }\n  }\n}\n"},
		"opencode 1": {"opencode", "{\n  \"mcp\": {}\n}\n", `{
  "mcp": {
    "colab": {
      "command": ["/opt/colab-mcp"],
      "timeout": 300000,
      "type": "local"
    }
  }
}
`},
		"opencode 2": {"opencode", "{\n  \"mcp\": {\n    \"servers\": {}\n  }\n}\n", `{
  "mcp": {
    "servers": {
      "colab": {
        "command": ["/opt/colab-mcp"],
        "timeout": {"request":300000},
        "type": "local"
      }
    }
  }
}
`},
		"TOML": {"codex", "model = \"m\" # mine\n[mcp_servers.other]\nargs = [\n  \"-y\",\n]\n\n[profiles.a]\nx = 1", `model = "m" # mine
[mcp_servers.other]
args = [
  "-y",
]

[profiles.a]
x = 1

[mcp_servers.colab]
command = "/opt/colab-mcp"
tool_timeout_sec = 300
env_vars = ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "BROWSER"]
`},
	} {
		t.Run(name, func(t *testing.T) {
			cl, _ := clientNamed(c.client)
			got, _, err := cl.edit([]byte(c.before), want())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			again, _, err := cl.edit(got, want())
			if err != nil || !bytes.Equal(again, got) {
				t.Errorf("a second install changes it: %v\n%s", err, again)
			}
		})
	}
}

func TestInstallCorrectsWhatIsWrongAndKeepsTheUsersOwn(t *testing.T) {
	for name, c := range map[string]struct{ client, before, after string }{
		"another path, a short timeout": {"gemini",
			`{"mcpServers": {"mine": {"command": "/old/colab-mcp", "args": ["--port", "9"], "env": {"A": "b"}, "timeout": 60000 /* ms */, "trust": true}}}`,
			`{"mcpServers": {"mine": {"command": "/opt/colab-mcp", "args": ["--port", "9"], "env": {"A": "b"}, "timeout": 300000 /* ms */, "trust": true}}}`},
		"a long timeout": {"gemini",
			`{"mcpServers": {"colab": {"timeout": 900000, "command": "/old/colab-mcp"}}}`,
			`{"mcpServers": {"colab": {"timeout": 900000, "command": "/opt/colab-mcp"}}}`},
		"arguments in the command": {"opencode",
			`{"mcp": {"colab": {"type": "local", "command": ["/old/colab-mcp", "--port", "9"], "timeout": 400000}}}`,
			`{"mcp": {"colab": {"type": "local", "command": ["/opt/colab-mcp", "--port", "9"], "timeout": 400000}}}`},
		"TOML": {"codex",
			"[mcp_servers.\"colab\"]\n  command = '/old/colab-mcp' # old\nenv_vars = [\"A\"]\n\n[mcp_servers.colab.env]\nX = \"1\"\n",
			"[mcp_servers.\"colab\"]\ncommand = \"/opt/colab-mcp\"\nenv_vars = [\"A\"]\ntool_timeout_sec = 300\n\n[mcp_servers.colab.env]\nX = \"1\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cl, _ := clientNamed(c.client)
			got, _, err := cl.edit([]byte(c.before), want())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestInstallReplacesArgumentsOnlyByGivenOnes(t *testing.T) {
	cl, _ := clientNamed("gemini")
	w := want()
	w.args, w.replace = []string{"--port", "8765"}, true
	got, _, err := cl.edit([]byte(`{"mcpServers": {"colab": {"command": "/opt/colab-mcp", "args": ["--ephemeral"], "timeout": 300000}}}`), w)
	if wanted := `{"mcpServers": {"colab": {"command": "/opt/colab-mcp", "args": ["--port", "8765"], "timeout": 300000}}}`; err != nil || string(got) != wanted {
		t.Errorf("%s, %v", got, err)
	}
}

func TestInstallTouchesNothingItDoesNotUnderstand(t *testing.T) {
	for name, c := range map[string]struct{ client, before string }{
		"cut off":                    {"gemini", `{"mcpServers": {"a`},
		"not an object":              {"gemini", `["mcpServers"]`},
		"servers in another form":    {"windsurf", `{"mcpServers": ["a"]}`},
		"another server of the name": {"claude", `{"mcpServers": {"colab": {"command": "uvx", "args": ["colab-proxy"]}}}`},
		"an entry by URL":            {"gemini", `{"mcpServers": {"colab": {"httpUrl": "https://x.example/mcp"}}}`},
		"broken TOML":                {"codex", "[mcp_servers\n"},
		"an inline table":            {"codex", `mcp_servers = { colab = { command = "/old/colab-mcp" } }`},
		"a sealed inline table":      {"codex", `mcp_servers = { other = { command = "x" } }`},
		"a value over several lines": {"codex", "[mcp_servers.colab]\ncommand = \"\"\"\n/old/colab-mcp\"\"\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("USERPROFILE", home)
			for _, v := range []string{"GEMINI_CLI_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"} {
				t.Setenv(v, "")
			}
			cl, _ := clientNamed(c.client)
			path := cl.file()
			os.MkdirAll(filepath.Dir(path), 0o700)
			os.WriteFile(path, []byte(c.before), 0o600)
			_, err := install(cl, want())
			if err == nil || !strings.Contains(err.Error(), "colab-mcp install "+c.client+" --print") {
				t.Errorf("the error names no way on: %v", err)
			}
			if now, _ := os.ReadFile(path); string(now) != c.before {
				t.Errorf("the file was changed:\n%s", now)
			}
			if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestInstallSaysThatANameIsTaken(t *testing.T) {
	cl, _ := clientNamed("claude")
	_, _, err := cl.edit([]byte(`{"mcpServers": {"colab": {"command": "uvx"}}}`), want())
	if !errors.Is(err, errForeign) {
		t.Errorf("%v", err)
	}
}

// program runs the binary once with a home of its own and returns what it
// printed and its exit status.
func program(t *testing.T, home string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	cmd.Dir = home
	cmd.Env = environment("HOME="+home, "USERPROFILE="+home, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "GEMINI_CLI_HOME=", "CLAUDE_CONFIG_DIR=", "CODEX_HOME=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestInstallWritesThroughALinkAndKeepsTheOldFile(t *testing.T) {
	home := t.TempDir()
	dotfiles := filepath.Join(home, "dotfiles")
	os.MkdirAll(filepath.Join(home, ".gemini"), 0o700)
	os.MkdirAll(dotfiles, 0o700)
	real := filepath.Join(dotfiles, "gemini.json")
	const before = "{\n  \"theme\": \"x\"\n}\n"
	os.WriteFile(real, []byte(before), 0o640)
	if err := os.Symlink(real, filepath.Join(home, ".gemini", "settings.json")); err != nil {
		t.Skip("no symlinks here: ", err)
	}
	out, errs, status := program(t, home, "install", "gemini", "--port", "8765")
	if status != 0 || !strings.Contains(out, "Gemini CLI now has") {
		t.Fatalf("%d\n%s%s", status, out, errs)
	}
	if fi, err := os.Lstat(filepath.Join(home, ".gemini", "settings.json")); err != nil || fi.Mode().Type() != os.ModeSymlink {
		t.Error("the link is gone")
	}
	var got struct {
		Theme      string
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	text, _ := os.ReadFile(real)
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	e := got.MCPServers["colab"]
	if !sameProgram(e.Command, binary(t)) || !cmp.Equal(e.Args, []string{"--port", "8765"}) || got.Theme != "x" {
		t.Errorf("%s", text)
	}
	if kept, _ := os.ReadFile(real + backupSuffix); string(kept) != before {
		t.Errorf("the old file is not kept: %q", kept)
	}
	if fi, _ := os.Stat(real); runtime.GOOS != "windows" && fi.Mode().Perm() != 0o640 {
		t.Errorf("mode %o", fi.Mode().Perm())
	}
	if out, _, status := program(t, home, "install", "gemini"); status != 0 || !strings.Contains(out, "already") {
		t.Errorf("a second time: %d %s", status, out)
	}
}

func TestInstallPrintsTheEntryAndNothingElse(t *testing.T) {
	home := t.TempDir()
	for _, c := range clients {
		out, errs, status := program(t, home, "install", c.name, "--print")
		d, err := c.parse([]byte(out))
		if err != nil || status != 0 {
			t.Fatalf("%s: %v\n%s%s", c.name, err, out, errs)
		}
		e, ok := c.ours(d, "colab")
		if !ok || c.unit != 0 && e.timeout <= time.Minute {
			t.Errorf("%s: %+v\n%s", c.name, e, out)
		}
	}
	if left, _ := os.ReadDir(home); len(left) != 0 {
		t.Errorf("--print wrote %v", left)
	}
}

func TestInstallWithoutAClientListsThem(t *testing.T) {
	home := t.TempDir()
	os.Mkdir(filepath.Join(home, ".codex"), 0o700)
	out, _, status := program(t, home, "install")
	if status != 0 || !strings.Contains(out, "would make "+tildeOf(".codex", "config.toml")) {
		t.Errorf("%d\n%s", status, out)
	}
	if _, errs, status := program(t, home, "install", "notepad"); status != 2 || !strings.Contains(errs, "gemini, windsurf") {
		t.Errorf("an unknown client: %d %s", status, errs)
	}
}

func tildeOf(parts ...string) string { return filepath.Join(append([]string{"~"}, parts...)...) }

func TestLogsShowTheNewestLines(t *testing.T) {
	home := t.TempDir()
	state := filepath.Join(home, "state")
	if out, errs, status := program(t, home, "--state-dir", state, "logs"); status != 1 || out != "" || !strings.Contains(errs, "there is no log in") {
		t.Errorf("without a log: %d %q %q", status, out, errs)
	}
	if exists(state) {
		t.Error("logs made the state directory")
	}
	a := launchAgent(t, state)
	a.shakeHands("test")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	out, errs, status := program(t, home, "--state-dir", state, "logs", "-n", "2")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if status != 0 || len(lines) != 2 || !strings.Contains(lines[1], "msg=stopped") || !strings.Contains(errs, "logs") {
		t.Errorf("%d %q %q", status, out, errs)
	}
	if _, _, status := program(t, home, "logs", "-n", "0"); status != 2 {
		t.Errorf("-n 0: %d", status)
	}
}
