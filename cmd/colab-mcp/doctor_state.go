package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"colab-mcp/state"
)

const noState = "Make it yours (chown), or name another --state-dir: without one every start has a new token"

// examineState looks at the state directory as it is, and at who has it.
func examineState(_ context.Context, s *settings) []check {
	dir := tilde(s.StateDir)
	in, err := state.Inspect(s.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && writable(above(s.StateDir)):
		return []check{{"state", fine, dir + " is not there yet: the first start makes it", ""}}
	case errors.Is(err, fs.ErrNotExist):
		return []check{{"state", failing, dir + " cannot be made", noState}}
	case err != nil:
		return []check{{"state", failing, err.Error(), noState}}
	case !writable(s.StateDir):
		return []check{{"state", failing, dir + " cannot be written to", noState}}
	}
	c := check{"state", fine, dir + " is private", ""}
	if len(in.Loose) > 0 {
		shown := in.Loose[:min(3, len(in.Loose))]
		c.Verdict, c.Detail = doubt, fmt.Sprintf("others may read %d entries of %s: %s", len(in.Loose), dir, strings.Join(shown, ", "))
		c.Cure = fmt.Sprintf("chmod -R go= %s", s.StateDir)
		if slices.Contains(in.Loose, ".") && slices.Contains(in.Loose, connectionFile) {
			c.Verdict = failing
			c.Cure += ", and start once with --rotate-token: the token was readable"
		}
	}
	if in.PID != 0 {
		c.Detail += fmt.Sprintf("; a server uses it (process %d, for %s): one that starts now has a port and token of its own", in.PID, ago(time.Since(in.Since)))
	}
	return []check{c}
}

// above is the nearest folder above path that is there.
func above(path string) string {
	for {
		up := filepath.Dir(path)
		if up == path || exists(up) {
			return up
		}
		path = up
	}
}

// writable tries it: permissions are not all that can be in the way. What it
// makes would be swept by the next server, were it left.
func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".tmp-doctor")
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}

// examineIdentity looks at what a restarted server goes on with.
func examineIdentity(_ context.Context, s *settings) []check {
	var c connection
	_, err := state.Peek(s.StateDir, connectionFile, connectionVersion, &c)
	var newer *state.VersionError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []check{{"identity", fine, "none yet: the first start makes a token", ""}}
	case errors.As(err, &newer):
		return []check{{"identity", failing, fmt.Sprintf("%s has version %d, and this program knows versions up to %d", newer.Name, newer.Found, newer.Known), "Update colab-mcp, or name another --state-dir"}}
	case errors.Is(err, state.ErrCorrupt) || err == nil && c.Token == "":
		return []check{{"identity", doubt, connectionFile + " is damaged", "The next start sets it aside and makes a new token: open the notebook again then"}}
	case err != nil:
		return []check{{"identity", failing, err.Error(), "Make it readable, or name another --state-dir"}}
	}
	age := time.Since(c.Created)
	detail := fmt.Sprintf("port %d, token %s old", c.Port, ago(max(age, 0)))
	if age < -time.Minute {
		detail = fmt.Sprintf("port %d, token made %s from now by this machine's clock", c.Port, ago(-age))
	}
	switch {
	case tooOld(c.Created, time.Now(), s.TokenMaxAge):
		detail += ": the next start replaces it"
	case s.TokenMaxAge > 0 && age >= 0:
		detail += fmt.Sprintf(" of %d days", s.TokenMaxAge)
	}
	if c.Notebook != "" {
		detail += ", last notebook " + c.Notebook
	}
	return []check{{"identity", fine, detail, ""}}
}

// examineLog finds the last failure of any server.
func examineLog(_ context.Context, s *settings) []check {
	const enough = 5000
	dir := tilde(s.Log)
	lines, err := state.Newest(s.Log, enough)
	if errors.Is(err, fs.ErrNotExist) {
		return []check{{"log", fine, "no server has logged in " + dir + " yet", ""}}
	}
	if err != nil {
		return []check{{"log", doubt, err.Error(), "Make it readable, or name another folder with --log"}}
	}
	worst, last := fine, ""
	for _, line := range slices.Backward(lines) {
		switch {
		case strings.Contains(line, " level=ERROR "):
			return []check{{"log", doubt, "last error: " + line, "colab-mcp logs shows what came before it"}}
		case last == "" && strings.Contains(line, " level=WARN "):
			last = line
		}
	}
	if last == "" {
		return []check{{"log", worst, "no failure in " + dir, ""}}
	}
	return []check{{"log", worst, "no error; last warning: " + last, ""}}
}
