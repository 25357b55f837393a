package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"
)

// entry is one MCP server in a client's configuration.
type entry struct {
	name    string
	command string // "" for one that is not started but called
	args    []string
	timeout time.Duration // for one call; 0 = not set
	off     bool
	fields  map[string]any
}

// entries are the servers of a document, by name.
func (c client) entries(d document) []entry {
	var list []entry
	for name, v := range lookup(d.tree(), d.servers()) {
		m, ok := v.(map[string]any)
		if !ok {
			continue
		}
		e := entry{name: name, fields: m, off: m["disabled"] == true || m["enabled"] == false}
		e.args = texts(m["args"])
		e.command, _ = m["command"].(string)
		if argv := texts(m["command"]); len(argv) > 0 {
			e.command, e.args = argv[0], argv[1:]
		}
		e.timeout = c.duration(m[c.timeout])
		list = append(list, e)
	}
	slices.SortFunc(list, func(x, y entry) int { return strings.Compare(x.name, y.name) })
	return list
}

// ours is the entry that starts a colab-mcp, the one of that name if several
// do.
func (c client) ours(d document, name string) (entry, bool) {
	var found entry
	ok := false
	for _, e := range c.entries(d) {
		if e.isOurs() && (!ok || e.name == name) {
			found, ok = e, true
		}
	}
	return found, ok
}

// named is the entry of that name, whatever it starts.
func (c client) named(d document, name string) (entry, bool) {
	list := c.entries(d)
	i := slices.IndexFunc(list, func(e entry) bool { return e.name == name })
	if i < 0 {
		return entry{}, false
	}
	return list[i], true
}

func (e entry) isOurs() bool {
	if e.command == "" {
		return false
	}
	base := e.command[strings.LastIndexAny(e.command, `/\`)+1:]
	return strings.TrimSuffix(base, ".exe") == "colab-mcp" || sameProgram(e.command, self())
}

// self is the path of this program, "" if the system does not tell.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

// sameProgram reports whether a command starts the program at path.
func sameProgram(command, path string) bool {
	found, err := exec.LookPath(command)
	if err != nil {
		return false
	}
	x, errX := os.Stat(found)
	y, errY := os.Stat(path)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func (c client) duration(v any) time.Duration {
	switch v := v.(type) {
	case float64:
		return time.Duration(v * float64(c.unit))
	case int64:
		return time.Duration(v) * c.unit
	case map[string]any: // opencode 2
		return c.duration(v["request"])
	}
	return 0
}

// wanted is the entry that install writes.
type wanted struct {
	name     string
	command  string
	args     []string
	replace  bool          // args were given: those that are there go
	patience time.Duration // a timeout below this is raised
}

// errForeign says that the name is another server's.
var errForeign = errors.New("another server has this name")

// edit adds or corrects the entry in a file's bytes. What is right stays as it
// is, so editing twice changes nothing. The name is that of the entry.
func (c client) edit(old []byte, w wanted) (changed []byte, name string, err error) {
	d, err := c.parse(old)
	if err != nil {
		return nil, "", err
	}
	before := d.tree()
	e, found := c.ours(d, w.name)
	if !found {
		if _, taken := lookup(before, d.servers())[w.name]; taken {
			return nil, "", fmt.Errorf("%w: choose another with --name, or remove that one", errForeign)
		}
		e = entry{name: w.name}
	}
	if err := d.put(e.name, c.fields(d, e, w, found)); err != nil {
		return nil, "", err
	}
	after, err := c.parse(d.bytes())
	if err != nil || !sameBut(before, after.tree(), append(slices.Clone(d.servers()), e.name)) {
		return nil, "", errors.New("it is written in a way that cannot be edited without touching the rest")
	}
	return d.bytes(), e.name, nil
}

// fields are the settings of e that must be other than they are.
func (c client) fields(d document, e entry, w wanted, found bool) []field {
	var list []field
	command, args := w.command, w.args
	if found && sameProgram(e.command, w.command) {
		command = e.command
	}
	if found && !w.replace {
		args = e.args
		w.patience = max(w.patience, e.patience(settings{}))
	}
	if c.argv {
		list = append(list, field{"command", append([]string{command}, args...)})
	} else {
		list = append(list, field{"command", command})
		if len(args) > 0 || e.fields["args"] != nil {
			list = append(list, field{"args", slices.Clone(args)})
		}
	}
	if c.timeout != "" && (e.timeout == 0 || e.timeout <= w.patience) {
		ms := int64(max(callTime, w.patience+time.Minute) / c.unit)
		list = append(list, field{c.timeout, ms})
		if s := d.servers(); s[len(s)-1] == "servers" { // opencode 2
			list[len(list)-1].value = map[string]any{"request": ms}
		}
	}
	for _, f := range c.extra {
		if e.fields[f.key] == nil { // a user's own choice stays
			list = append(list, f)
		}
	}
	return slices.DeleteFunc(list, func(f field) bool { return reflect.DeepEqual(plain(f.value), plain(e.fields[f.key])) })
}

// lookup is the table at path, nil if there is none.
func lookup(tree map[string]any, path []string) map[string]any {
	for _, key := range path {
		tree, _ = tree[key].(map[string]any)
	}
	return tree
}

// sameBut compares two trees apart from what is at path.
func sameBut(x, y map[string]any, path []string) bool {
	without := func(tree map[string]any, key string) map[string]any {
		copied := map[string]any{}
		for k, v := range tree {
			if k != key {
				copied[k] = v
			}
		}
		return copied
	}
	if !reflect.DeepEqual(without(x, path[0]), without(y, path[0])) {
		return false
	}
	if len(path) == 1 {
		return true
	}
	return sameBut(lookup(x, path[:1]), lookup(y, path[:1]), path[1:])
}

// plain makes values comparable, however they were written.
func plain(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case []string:
		return plainList(v)
	case []any:
		return plainList(v)
	case map[string]any:
		m := map[string]any{}
		for k := range v {
			m[k] = plain(v[k])
		}
		return m
	}
	return v
}

func plainList[T any](list []T) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = plain(list[i])
	}
	return out
}

func texts(v any) []string {
	var list []string
	items, _ := v.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		}
	}
	return list
}
