package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// callTime is the timeout that install gives a client for one call: the user's
// hand in the tab, a notebook that is opened again and a hand-back fit in.
const callTime = 5 * time.Minute

// client is a program that starts MCP servers, and how its user tells it of
// them. The files are the same below the home directory on every system.
type client struct {
	name    string // as install takes it
	title   string
	home    func() string // the folder of its files
	files   []string      // names below home; the first is made when there is none
	marks   []string      // beside a file, what shows that the program is here: names below home
	program string        // on the PATH
	parse   func([]byte) (document, error)

	timeout string        // key of the timeout for one call, "" if it has none
	unit    time.Duration // of that timeout
	usual   time.Duration // when none is set; 0 = longer than any call, or put off by progress
	argv    bool          // command and arguments are one list
	extra   []field       // what else an entry needs
}

// clients are those that install and doctor know. Timeouts are those seen with
// Gemini CLI 0.61, Claude Code 2.1, Codex 0.171 and opencode 1.18; Windsurf
// documents no timeout. Codex starts servers without the variables a browser
// needs, unless they are listed.
var clients = []client{
	{
		name: "gemini", title: "Gemini CLI", program: "gemini",
		home: under("GEMINI_CLI_HOME", "", ".gemini"), files: []string{"settings.json"}, marks: []string{"."},
		parse: parseJSON("mcpServers"), timeout: "timeout", unit: time.Millisecond, usual: 10 * time.Minute,
	},
	{
		name: "windsurf", title: "Windsurf", program: "windsurf",
		home: under("", ".codeium", "windsurf"), files: []string{"mcp_config.json"}, marks: []string{"."},
		parse: parseJSON("mcpServers"),
	},
	{
		name: "claude", title: "Claude Code", program: "claude",
		home: under("CLAUDE_CONFIG_DIR", "", ""), files: []string{".claude.json"}, marks: []string{".claude"},
		parse: parseJSON("mcpServers"), timeout: "timeout", unit: time.Millisecond,
		extra: []field{{"type", "stdio"}},
	},
	{
		name: "codex", title: "Codex", program: "codex",
		home: under("CODEX_HOME", ".codex", ""), files: []string{"config.toml"}, marks: []string{"."},
		parse: parseTOML("mcp_servers"), timeout: "tool_timeout_sec", unit: time.Second, usual: 5 * time.Minute,
		extra: []field{{"env_vars", []string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "BROWSER"}}},
	},
	{
		name: "opencode", title: "opencode", program: "opencode",
		home: under("XDG_CONFIG_HOME", ".config", "opencode"), files: []string{"opencode.json", "opencode.jsonc"}, marks: []string{"."},
		parse: parseOpencode, timeout: "timeout", unit: time.Millisecond, argv: true,
		extra: []field{{"type", "local"}},
	},
}

// under is a folder: rest below the one that the variable names, or else below
// instead in the user's home.
func under(variable, instead, rest string) func() string {
	return func() string {
		base := ""
		if variable != "" {
			base = os.Getenv(variable)
		}
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return ""
			}
			base = filepath.Join(home, instead)
		}
		return filepath.Join(base, rest)
	}
}

func clientNamed(name string) (client, bool) {
	i := slices.IndexFunc(clients, func(c client) bool { return c.name == name })
	if i < 0 {
		return client{}, false
	}
	return clients[i], true
}

// file is its configuration, or where one would be made.
func (c client) file() string {
	for _, name := range c.files {
		if path := filepath.Join(c.home(), name); exists(path) {
			return path
		}
	}
	return filepath.Join(c.home(), c.files[0])
}

// here reports whether there is a trace of the program on this machine.
func (c client) here() bool {
	if _, err := exec.LookPath(c.program); err == nil || exists(c.file()) {
		return true
	}
	return slices.ContainsFunc(c.marks, func(m string) bool { return exists(filepath.Join(c.home(), m)) })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// document is a configuration file, taken apart.
type document interface {
	// tree is all that is in it.
	tree() map[string]any
	// servers is where in the tree its MCP servers are.
	servers() []string
	// put sets fields of one server and leaves every other byte as it is.
	put(server string, fields []field) error
	bytes() []byte
}

// field is one setting of a server.
type field struct {
	key   string
	value any // string, int64, bool, []string, or a map of these
}

// readConfig is a client's file as it is; one that is not there is empty.
func readConfig(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}
