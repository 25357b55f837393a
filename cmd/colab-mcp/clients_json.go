package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonDoc is a JSON file with comments and trailing commas, which Gemini CLI
// and opencode allow. All of it that is not set stays as it is written.
type jsonDoc struct {
	bom  []byte
	root hujson.Value
	path []string
	nl   string
	unit string // of indentation
}

// parseJSON returns a parser for files whose servers are at path.
func parseJSON(path ...string) func([]byte) (document, error) {
	return func(b []byte) (document, error) { return newJSONDoc(b, path) }
}

// parseOpencode finds out which of its two forms the file has: servers are
// members of mcp, or, since version 2, of mcp.servers.
func parseOpencode(b []byte) (document, error) {
	d, err := newJSONDoc(b, []string{"mcp"})
	if err != nil {
		return nil, err
	}
	if inner := lookup(d.tree(), []string{"mcp", "servers"}); inner != nil && inner["command"] == nil && inner["url"] == nil {
		d.path = []string{"mcp", "servers"}
	}
	return d, nil
}

func newJSONDoc(b []byte, path []string) (*jsonDoc, error) {
	d := &jsonDoc{path: path, nl: "\n", unit: "  "}
	if rest, ok := bytes.CutPrefix(b, []byte("\ufeff")); ok {
		d.bom, b = []byte("\ufeff"), rest
	}
	if len(bytes.TrimSpace(b)) == 0 {
		b = []byte("{}\n")
	}
	var err error
	if d.root, err = hujson.Parse(b); err != nil {
		return nil, errors.New("it is not JSON: " + strings.TrimPrefix(err.Error(), "hujson: "))
	}
	root, ok := d.root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	if bytes.Contains(b, []byte("\r\n")) {
		d.nl = "\r\n"
	}
	if len(root.Members) > 0 {
		before := string(root.Members[0].Name.BeforeExtra)
		if i := strings.LastIndexByte(before, '\n'); i >= 0 && i+1 < len(before) {
			d.unit = before[i+1:]
		}
	}
	return d, nil
}

func (d *jsonDoc) servers() []string { return d.path }

func (d *jsonDoc) bytes() []byte { return append(slices.Clone(d.bom), d.root.Pack()...) }

func (d *jsonDoc) tree() map[string]any {
	plain := d.root.Clone()
	plain.Standardize()
	var tree map[string]any
	if json.Unmarshal(plain.Pack(), &tree) != nil {
		return nil // cannot be: it was parsed
	}
	return tree
}

func (d *jsonDoc) put(server string, fields []field) error {
	at := &d.root
	for depth, key := range append(slices.Clone(d.path), server) {
		next := find(at, key)
		if next == nil {
			next = d.add(at, key, hujson.Value{Value: &hujson.Object{}}, depth)
		}
		if _, ok := next.Value.(*hujson.Object); !ok {
			return fmt.Errorf("its %q is not an object", key)
		}
		at = next
	}
	for _, f := range fields {
		value, err := encodeJSON(f.value)
		if err != nil {
			return err
		}
		if there := find(at, f.key); there != nil {
			there.Value = value.Value
			continue
		}
		d.add(at, f.key, value, len(d.path)+1)
	}
	return nil
}

// find is the member of that name, nil if there is none. Of several the last
// counts, as for every reader.
func find(v *hujson.Value, name string) *hujson.Value {
	o := v.Value.(*hujson.Object)
	for i := len(o.Members) - 1; i >= 0; i-- {
		if lit, ok := o.Members[i].Name.Value.(hujson.Literal); ok && lit.String() == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

// add appends a member on a line of its own, behind comments that stand at the
// object's end.
func (d *jsonDoc) add(v *hujson.Value, name string, value hujson.Value, depth int) *hujson.Value {
	o := v.Value.(*hujson.Object)
	line := d.nl + strings.Repeat(d.unit, depth+1)
	before := strings.TrimRight(string(o.AfterExtra), " \t\r\n") + line
	trailing := len(o.Members) > 0 && o.Members[len(o.Members)-1].Value.AfterExtra != nil
	value.BeforeExtra = hujson.Extra(" ")
	if value.AfterExtra = nil; trailing {
		value.AfterExtra = hujson.Extra{}
	}
	o.Members = append(o.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(before), Value: hujson.String(name)},
		Value: value,
	})
	o.AfterExtra = hujson.Extra(d.nl + strings.Repeat(d.unit, depth))
	return &o.Members[len(o.Members)-1].Value
}

func encodeJSON(v any) (hujson.Value, error) {
	text, err := jsonText(v)
	if err != nil {
		return hujson.Value{}, err
	}
	return hujson.Parse([]byte(text))
}

// jsonText is v on one line, as a person would write it.
func jsonText(v any) (string, error) {
	if list, ok := v.([]string); ok {
		items := make([]string, len(list))
		for i, s := range list {
			var err error
			if items[i], err = jsonText(s); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
