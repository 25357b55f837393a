package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/alecthomas/kong"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// commandLine is every flag and command. The server's own flags are at the top
// level, since the server is what runs without a command.
type commandLine struct {
	settings
	Version kong.VersionFlag `help:"Print version, commit and Go version."`

	Serve serveCmd `cmd:"" default:"1" hidden:"" help:"Serve MCP on stdin and stdout (the default)."`

	Demo    demoCmd    `cmd:"" help:"Play the main job on a local stand-in for Colab: needs python3, no browser and no account."`
	Doctor  doctorCmd  `cmd:"" help:"Look for what keeps a tab or an agent from connecting, and say the cure."`
	Install installCmd `cmd:"" help:"Tell an agent's program (Gemini CLI, Windsurf, Claude Code, Codex, opencode) of this server."`
	Logs    logsCmd    `cmd:"" help:"Print the newest log lines."`
	Tab     tabCmd     `cmd:"" help:"Be the stand-in: takes the link that would go to a browser and drives a local Jupyter kernel."`
	Ver     verCmd     `cmd:"" name:"version" help:"Print version, commit and Go version."`
}

// settings are the flags of the server.
type settings struct {
	StateDir    string   `name:"state-dir" env:"COLAB_MCP_STATE_DIR" placeholder:"DIR" help:"Where identity, jobs and kept outputs live. Default: colab-mcp in the XDG state home."`
	Log         string   `short:"l" env:"COLAB_MCP_LOG_DIR" placeholder:"DIR" help:"Where log files go. Default: logs in the state directory."`
	LogLevel    string   `name:"log-level" env:"COLAB_MCP_LOG_LEVEL" enum:"debug,info,warn,error" default:"info" help:"debug, info, warn or error."`
	Port        port     `env:"COLAB_MCP_PORT" placeholder:"N" help:"Pin the port the tab dials. Default: the last one, else any free port."`
	Ephemeral   bool     `help:"Use a fresh token and port; read and write nothing."`
	RotateToken bool     `name:"rotate-token" help:"Replace the token now; port and last notebook stay."`
	TokenMaxAge int      `name:"token-max-age-days" env:"COLAB_MCP_TOKEN_MAX_AGE_DAYS" placeholder:"N" default:"30" help:"Replace a kept token that is older than this many days; 0 = never. Default: 30."`
	UITimeout   duration `name:"ui-timeout" env:"COLAB_MCP_UI_TIMEOUT" placeholder:"D" default:"60s" help:"How long the opener waits for you to accept in the tab, as 90s or in seconds. Default: 60s."`
	SoftLimit   duration `name:"soft-limit" env:"COLAB_MCP_SOFT_LIMIT" placeholder:"D" default:"45s" help:"A run that lasts longer is handed back to the agent as a job. Default: 45s."`
	AutoReopen  bool     `name:"auto-reopen" env:"COLAB_MCP_AUTO_REOPEN" default:"true" negatable:"" help:"Re-open a dropped tab when a tool needs it. Default: yes."`
	MaxOutput   int      `name:"max-output" env:"COLAB_MCP_MAX_OUTPUT" placeholder:"N" help:"Characters of text in one result. Default: by client."`
	Browser     string   `env:"COLAB_MCP_BROWSER" placeholder:"CMD" help:"Command that opens a link, which is appended as its last argument; none = do not open, return the link."`
	AllowDir    []string `name:"allow-dir" sep:"none" placeholder:"DIR" help:"Read and write local files only below this folder (repeatable; COLAB_MCP_ALLOW_DIRS is a path list)."`
	MaxTransfer size     `name:"max-transfer" env:"COLAB_MCP_MAX_TRANSFER" placeholder:"SIZE" default:"2GiB" help:"Refuse to transfer a larger file. Default: 2GiB."`

	local *notebook.Local `kong:"-"` // what AllowDir opens
}

// unused is a flag of the server's that was given to a command which has no use
// for it, nil if none was.
func unused(ctx *kong.Context) *kong.Flag {
	if !slices.Contains([]string{"demo", "tab", "version"}, ctx.Selected().Name) {
		return nil
	}
	for _, p := range ctx.Path {
		if p.Flag != nil && slices.Contains(ctx.Model.Flags, p.Flag) {
			return p.Flag
		}
	}
	return nil
}

// AfterApply checks what the parser cannot and fills in defaults.
func (s *settings) AfterApply() error {
	if s.MaxOutput < 0 {
		return fmt.Errorf("--max-output: expected a positive number of characters, got %d", s.MaxOutput)
	}
	if s.TokenMaxAge < 0 {
		return fmt.Errorf("--token-max-age-days: expected 0 (never) or more days, got %d", s.TokenMaxAge)
	}
	if _, err := bridge.NewLauncher(s.Browser); err != nil {
		return fmt.Errorf("--browser: %w", err)
	}
	if list := os.Getenv("COLAB_MCP_ALLOW_DIRS"); list != "" && len(s.AllowDir) == 0 {
		s.AllowDir = filepath.SplitList(list)
	}
	var err error
	if s.local, err = notebook.NewLocal(s.AllowDir); err != nil {
		return fmt.Errorf("--allow-dir: %w", err)
	}
	if s.StateDir, err = absolute(s.StateDir); err != nil {
		return fmt.Errorf("--state-dir: %w", err)
	}
	if s.Log, err = absolute(s.Log); err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	if s.StateDir == "" {
		s.StateDir = filepath.Join(xdg.StateHome, "colab-mcp")
	}
	if s.Log == "" {
		s.Log = filepath.Join(s.StateDir, "logs")
	}
	return nil
}

// unsetEmpty makes a variable of ours that is set to nothing one that is not
// set: agents' programs pass on what their users left empty.
func unsetEmpty() {
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); value == "" && strings.HasPrefix(name, "COLAB_MCP_") {
			os.Unsetenv(name)
		}
	}
}

// findHome asks the system for the home directory where whoever starts us has
// passed no HOME on: paths below it would be paths below /.
func findHome() {
	if os.Getenv("HOME") != "" || runtime.GOOS == "windows" {
		return
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		os.Setenv("HOME", u.HomeDir)
		xdg.Reload()
	}
}

// absolute expands ~ and makes a path independent of the working directory;
// "" stays.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return notebook.Abs(path)
}

// duration is a Go duration, or plain seconds.
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if seconds, numberErr := strconv.ParseFloat(string(text), 64); numberErr == nil {
		v, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || v <= 0 {
		return fmt.Errorf("expected a positive duration like 45s or plain seconds, got %q", text)
	}
	*d = duration(v)
	return nil
}

// port is a port that a browser lets a page dial.
type port int

func (p *port) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("expected a port between 1 and 65535, got %q", text)
	}
	if bridge.UnsafePort(n) {
		return fmt.Errorf("browsers refuse to connect to port %d; choose another, for example 8765", n)
	}
	*p = port(n)
	return nil
}

// size is a number of bytes, with a unit if one is given.
type size int64

func (s *size) UnmarshalText(text []byte) error {
	units := []struct {
		name  string
		shift uint
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}, {"", 0}}
	for _, u := range units {
		number, ok := strings.CutSuffix(string(text), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n <= 0 || n > 1<<62>>u.shift {
			break
		}
		*s = size(n << u.shift)
		return nil
	}
	return fmt.Errorf("expected a size like 2GiB, 500MiB or bytes, got %q", text)
}
