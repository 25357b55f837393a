package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// tomlDoc is a TOML file as lines. Only lines of one table are changed; who
// calls put checks that what came of it is what was meant.
type tomlDoc struct {
	lines []string // with their ends
	table string
	nl    string
	all   map[string]any
}

// parseTOML returns a parser for files whose servers are tables below table.
func parseTOML(table string) func([]byte) (document, error) {
	return func(b []byte) (document, error) {
		d := &tomlDoc{table: table, nl: "\n"}
		if _, err := toml.Decode(string(b), &d.all); err != nil {
			var where toml.ParseError
			if errors.As(err, &where) {
				return nil, fmt.Errorf("it is not TOML: line %d: %s", where.Position.Line, where.Message)
			}
			return nil, fmt.Errorf("it is not TOML: %w", err)
		}
		if bytes.Contains(b, []byte("\r\n")) {
			d.nl = "\r\n"
		}
		d.lines = slices.Collect(strings.Lines(string(b)))
		return d, nil
	}
}

func (d *tomlDoc) servers() []string    { return []string{d.table} }
func (d *tomlDoc) tree() map[string]any { return d.all }
func (d *tomlDoc) bytes() []byte        { return []byte(strings.Join(d.lines, "")) }

var header = regexp.MustCompile(`^\s*\[`)

func (d *tomlDoc) put(server string, fields []field) error {
	if len(fields) == 0 {
		return nil
	}
	first := d.headerOf(server)
	if first < 0 {
		if d.all[d.table] != nil && !d.open() || lookup(d.all, []string{d.table})[server] != nil {
			return errors.New("its servers are not tables of their own")
		}
		first = d.begin(server)
	}
	end := first + 1
	for end < len(d.lines) && !header.MatchString(d.lines[end]) {
		end++
	}
	for _, f := range fields {
		value, err := jsonText(f.value) // of strings, numbers and lists it is TOML, too
		if err != nil {
			return err
		}
		line := f.key + " = " + value + d.nl
		if i := d.keyLine(f.key, first, end); i >= 0 {
			d.lines[i] = line
			continue
		}
		at := end
		for at > first+1 && strings.TrimSpace(d.lines[at-1]) == "" {
			at--
		}
		if !strings.HasSuffix(d.lines[at-1], "\n") {
			d.lines[at-1] += d.nl
		}
		d.lines = slices.Insert(d.lines, at, line)
		end++
	}
	return nil
}

// open reports whether the servers may get one more table: an inline table or
// dotted keys may not (TOML 1.0, "Inline Table").
func (d *tomlDoc) open() bool {
	return slices.ContainsFunc(d.lines, regexp.MustCompile(`^\s*\[\s*`+d.table+`\s*[.\]]`).MatchString)
}

func (d *tomlDoc) headerOf(server string) int {
	name := regexp.QuoteMeta(server)
	this := regexp.MustCompile(`^\s*\[\s*` + d.table + `\s*\.\s*(?:` + name + `|"` + name + `"|'` + name + `')\s*\]`)
	return slices.IndexFunc(d.lines, this.MatchString)
}

// begin adds an empty table at the end.
func (d *tomlDoc) begin(server string) int {
	if n := len(d.lines); n > 0 {
		d.lines[n-1] = strings.TrimRight(d.lines[n-1], "\r\n") + d.nl
		d.lines = append(d.lines, d.nl)
	}
	d.lines = append(d.lines, "["+d.table+"."+server+"]"+d.nl)
	return len(d.lines) - 1
}

func (d *tomlDoc) keyLine(key string, first, end int) int {
	this := regexp.MustCompile(`^\s*"?` + regexp.QuoteMeta(key) + `"?\s*=`)
	for i := first + 1; i < end; i++ {
		if this.MatchString(d.lines[i]) {
			return i
		}
	}
	return -1
}
