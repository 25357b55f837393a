package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"colab-mcp/state"
)

type installCmd struct {
	Client string `arg:"" optional:"" help:"gemini, windsurf, claude, codex or opencode. Without one: list those that are here."`
	Print  bool   `help:"Show the entry instead of writing it."`
	Name   string `default:"colab" placeholder:"NAME" help:"What the client calls this server. Default: colab."`
}

func (installCmd) Help() string {
	return "The client's file is replaced as a whole or not at all; as it was, it is kept beside it under its name + " + backupSuffix + ".\nWhat is in it stays byte for byte, comments included. Server flags that are given go into the entry:\n  colab-mcp install gemini --port 8765"
}

// backupSuffix is added to the name of a file that install has changed.
const backupSuffix = ".before-colab-mcp"

var goodServerName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]{0,30}$`)

func (c *installCmd) Run(s *settings, ctx *kong.Context) error {
	if !goodServerName.MatchString(c.Name) {
		return usageError{fmt.Errorf("--name: expected up to 31 letters, digits and hyphens, got %q", c.Name)}
	}
	w := wanted{name: c.Name, command: self(), args: serverFlags(ctx), patience: patienceOf(s)}
	w.replace = len(w.args) > 0
	if c.Client == "" {
		return listClients(w)
	}
	cl, ok := clientNamed(c.Client)
	if !ok {
		return usageError{fmt.Errorf("install: expected gemini, windsurf, claude, codex or opencode, got %q; for another program take what --print shows for gemini", c.Client)}
	}
	if c.Print {
		return printEntry(cl, w)
	}
	if strings.Contains(filepath.ToSlash(w.command), "/go-build") {
		return errors.New("this program was built by go run and is gone when it ends: build it (go build ./cmd/colab-mcp) or go install it, and run that one's install")
	}
	done, err := install(cl, w)
	if err != nil {
		return err
	}
	done.tell(cl)
	return nil
}

// serverFlags are the server's flags as they were given.
func serverFlags(ctx *kong.Context) []string {
	var list []string
	for _, p := range ctx.Path {
		if p.Flag == nil || p.Resolved || !slices.Contains(ctx.Model.Flags, p.Flag) {
			continue
		}
		flag := "--" + p.Flag.Name
		if flag == "--rotate-token" {
			continue // once is meant, not at every start
		}
		v := p.Flag.Target
		switch {
		case p.Flag.IsSlice():
			for i := range v.Len() {
				list = append(list, flag, v.Index(i).String())
			}
		case v.Type() == reflect.TypeFor[duration]():
			list = append(list, flag, time.Duration(v.Int()).String())
		case p.Flag.IsBool():
			list = append(list, fmt.Sprintf("%s=%t", flag, v.Bool()))
		default:
			list = append(list, flag, fmt.Sprint(v.Interface()))
		}
	}
	return list
}

// installed is what install did.
type installed struct {
	path, name string
	changed    bool
	backup     string // "" if there was no file
}

// install edits the client's file. A file that changes meanwhile (Claude Code
// keeps its own state in it) is read again.
func install(c client, w wanted) (installed, error) {
	done := installed{path: c.file()}
	target := done.path
	if real, err := filepath.EvalSymlinks(target); err == nil { // a link into somebody's dotfiles stays one
		target = real
	}
	for range 5 {
		old, err := readConfig(target)
		if err != nil {
			return done, err
		}
		changed, name, err := c.edit(old, w)
		if err != nil {
			return done, fmt.Errorf("%s: %w. Nothing was changed. To add it by hand: colab-mcp install %s --print", done.path, err, c.name)
		}
		done.name = name
		if done.changed = !bytes.Equal(old, changed); !done.changed {
			return done, nil
		}
		if old != nil {
			done.backup = done.path + backupSuffix
			if err := replace(target+backupSuffix, old, modeOf(target)); err != nil {
				return done, err
			}
		} else if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return done, err
		}
		if now, err := readConfig(target); err != nil || !bytes.Equal(now, old) {
			continue
		}
		return done, replace(target, changed, 0o600)
	}
	return done, fmt.Errorf("%s changes all the time: quit %s and try again", done.path, c.title)
}

// replace writes a file as a whole.
func replace(path string, data []byte, perm os.FileMode) error {
	f, err := state.Create(path, perm, true)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

func modeOf(path string) os.FileMode {
	if fi, err := os.Stat(path); err == nil {
		return fi.Mode().Perm()
	}
	return 0o600
}

func (d installed) tell(c client) {
	if !d.changed {
		fmt.Printf("%s has %q in %s already. Nothing was changed.\n", c.title, d.name, tilde(d.path))
		return
	}
	fmt.Printf("%s now has %q in %s.\n", c.title, d.name, tilde(d.path))
	if d.backup != "" {
		fmt.Printf("The file as it was: %s\n", tilde(d.backup))
	}
	fmt.Printf("Start %s anew and ask it to open your Colab notebook.\n", c.title)
}

// printEntry shows the entry as it would be in an empty file; only that goes
// to stdout.
func printEntry(c client, w wanted) error {
	text, _, err := c.edit(nil, w)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "# for %s, in %s\n", c.title, tilde(c.file()))
	fmt.Print(string(text))
	return nil
}

// listClients says of each client what install would do.
func listClients(w wanted) error {
	width := 0
	for _, c := range clients {
		width = max(width, len(c.name))
	}
	some := ""
	for _, c := range clients {
		word := "not on this machine"
		if c.here() {
			if some == "" {
				some = c.name
			}
			word = outlook(c, w)
		}
		fmt.Printf("%-*s  %-11s  %s\n", width, c.name, c.title, word)
	}
	if some == "" {
		some = clients[0].name
	}
	fmt.Printf("\ncolab-mcp install %s          writes the entry\ncolab-mcp install %s --print  shows it\n", some, some)
	return nil
}

// outlook is what install would do to a client's file.
func outlook(c client, w wanted) string {
	path := c.file()
	old, err := readConfig(path)
	if err != nil {
		return err.Error()
	}
	changed, name, err := c.edit(old, w)
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be edited: %v", tilde(path), err)
	case bytes.Equal(old, changed):
		return fmt.Sprintf("installed: %q in %s", name, tilde(path))
	case old == nil:
		return fmt.Sprintf("would make %s", tilde(path))
	}
	if d, err := c.parse(old); err == nil {
		if _, found := c.ours(d, name); found {
			return fmt.Sprintf("would correct %q in %s", name, tilde(path))
		}
	}
	return fmt.Sprintf("would add %q to %s", name, tilde(path))
}

// tilde is a path as people write it.
func tilde(path string) string {
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok {
		return "~" + string(filepath.Separator) + rest
	}
	return path
}
