package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab"
)

// examineBrowser finds what would open a link. None is no failure: the agent
// is given the link.
func examineBrowser(_ context.Context, s *settings) []check {
	l, err := bridge.NewLauncher(s.Browser)
	if err != nil {
		return []check{{"browser", failing, err.Error(), "Correct --browser"}}
	}
	defer l.Close()
	program, err := l.Program()
	const byHand = "the agent will hand you the link to open yourself"
	switch {
	case err == nil:
		return []check{{"browser", fine, program + " opens links", ""}}
	case errors.Is(err, bridge.ErrNoBrowser):
		return []check{{"browser", fine, "none is to be started: " + byHand, ""}}
	case errors.Is(err, bridge.ErrNoDisplay):
		return []check{{"browser", doubt, fmt.Sprintf("%v: %s", err, byHand), "Set DISPLAY in the agent's environment, or from the machine with the browser: ssh -L PORT:localhost:PORT THIS-MACHINE"}}
	}
	return []check{{"browser", doubt, fmt.Sprintf("%v: %s", err, byHand), `Name one that works: --browser "COMMAND"`}}
}

// examinePython looks for what the stand-in needs; Colab needs none of it.
func examinePython(ctx context.Context, _ *settings) []check {
	python, err := localtab.FindPython("")
	if err != nil {
		return []check{{"stand-in", doubt, "demo and tab lack Python; Colab does not need it", err.Error()}}
	}
	ctx, cancel := context.WithTimeout(ctx, netTime)
	defer cancel()
	if exec.CommandContext(ctx, python, "-c", "import ipykernel, jupyter_client").Run() != nil {
		return []check{{"stand-in", doubt, python + " runs cells without a Jupyter kernel (no magics, no rich display)", "For a real one: apt install python3-ipykernel, or pip install ipykernel"}}
	}
	return []check{{"stand-in", fine, python + " drives a real kernel for demo and tab", ""}}
}

// examineClients looks at the configuration of each agent's program that is
// here.
func examineClients(_ context.Context, s *settings) []check {
	var list []check
	some := false
	for _, c := range clients {
		if c.here() {
			found, configured := examineClient(c, s)
			list = append(list, found)
			some = some || configured
		}
	}
	if some {
		return list
	}
	names := make([]string, len(clients))
	for i, c := range clients {
		names[i] = c.name
	}
	return append(list, check{"agent", doubt, "no program of an agent that we know is told of this server", "colab-mcp install " + strings.Join(names, "|")})
}

// examineClient reports on one; configured is whether it would start a
// colab-mcp.
func examineClient(c client, s *settings) (found check, configured bool) {
	out := func(v verdict, cure, format string, args ...any) check {
		return check{c.title, v, fmt.Sprintf(format, args...), cure}
	}
	path := c.file()
	text, err := readConfig(path)
	if err != nil {
		return out(failing, "Make it readable", "%v", err), false
	}
	d, err := c.parse(text)
	if err != nil {
		return out(failing, "Correct it, or move it away", "%s: %v", tilde(path), err), false
	}
	e, ok := c.ours(d, "colab")
	if other, taken := c.named(d, "colab"); !ok && taken {
		return out(doubt, fmt.Sprintf("If Colab is meant to go by this program, remove that one and run: colab-mcp install %s", c.name),
			"%q in %s is another server: %s", other.name, tilde(path), cmp.Or(other.command, "one that is not started here")), false
	}
	if !ok {
		return out(fine, "", "%s does not name this server (colab-mcp install %s adds it)", tilde(path), c.name), false
	}
	correct := "colab-mcp install " + c.name
	switch patience, wait := e.patience(*s), cmp.Or(e.timeout, c.usual); {
	case e.off:
		return out(doubt, "Switch it on there", "%q in %s is switched off", e.name, tilde(path)), true
	case !runs(e.command):
		return out(failing, correct, "%q in %s starts %s, which is not a program here", e.name, tilde(path), e.command), true
	case !sameProgram(e.command, self()):
		return out(doubt, correct+", if you mean this program", "%q in %s starts %s, another program than this one", e.name, tilde(path), e.command), true
	case wait != 0 && wait <= patience:
		return out(failing, correct, "%q in %s gives up after %s, and a call may take %s while you accept in the tab", e.name, tilde(path), wait, patience), true
	case c.name == "codex" && runtime.GOOS == "linux" && s.Browser == "" && !slices.Contains(texts(e.fields["env_vars"]), "DISPLAY"):
		return out(doubt, `Add env_vars = ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"] to the entry`, "%q in %s is started without DISPLAY: no browser can be opened", e.name, tilde(path)), true
	default:
		limit := "no limit below an hour"
		if c.unit == 0 {
			limit = "it has no such setting"
		} else if wait != 0 {
			limit = wait.String()
		}
		return out(fine, "", "%q in %s starts this program (timeout of a call: %s)", e.name, tilde(path), limit), true
	}
}

func runs(command string) bool {
	_, err := exec.LookPath(command)
	return err == nil && (filepath.IsAbs(command) || !strings.ContainsAny(command, `/\`))
}
