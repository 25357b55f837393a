package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The packages, and what of ours each may import. An arrow that is not here is
// a decision to take, not a line to add: move the code to the package that the
// arrow would point to, or hand it in as a value or a callback.
var packages = map[string]struct {
	may []string
	why string
}{
	"cmd/colab-mcp":           {[]string{"transfer", "jobs", "notebook", "bridge", "bridge/stdio", "bridge/localtab", "state"}, "it wires all the others together, and nothing imports it"},
	"transfer":                {[]string{"jobs", "notebook", "bridge", "state"}, "a transfer is a job; jobs know nothing of files"},
	"jobs":                    {[]string{"notebook", "bridge", "state"}, "a job runs cells in turn and keeps what became of them"},
	"notebook":                {[]string{"bridge"}, "cells are read and run through the tab; where they are kept is the caller's matter"},
	"notebook/kerneltest":     {[]string{"notebook"}, "it runs that package's Python in a real kernel"},
	"bridge":                  {nil, "it is handed values and callbacks, and so can be tried without a disk, a job or a cell"},
	"bridge/stdio":            {nil, "a pipe carries any MCP server's messages"},
	"bridge/localtab":         {nil, "the far end shares the wire with the bridge and no code, or it would share its mistakes"},
	"bridge/localtab/tabtest": {[]string{"bridge", "bridge/localtab"}, "it puts a relay that misbehaves between the two"},
	"state":                   {nil, "files on disk mean nothing to it"},
}

// testOnly are packages that no program may contain.
var testOnly = []string{"bridge/localtab/tabtest", "notebook/kerneltest"}

const (
	module = "colab-mcp"
	sdk    = "github.com/modelcontextprotocol/go-sdk"
)

// mayUseSDK says where the MCP SDK is known: beside each feature in the files
// of its tools, and where MCP itself is spoken.
func mayUseSDK(pkg, file string) bool {
	switch pkg {
	case "cmd/colab-mcp", "bridge/stdio", "bridge/localtab":
		return true
	}
	return file == "tools.go" || strings.HasPrefix(file, "tool_")
}

// sourceFile is a Go file of the module, with its imports.
type sourceFile struct {
	pkg, name string // the package's folder, from the module's
	imports   []string
}

func (f sourceFile) test() bool { return strings.HasSuffix(f.name, "_test.go") }

// sourceFiles are all Go files, whatever system they are for.
func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	err := fs.WalkDir(os.DirFS(moduleDir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(moduleDir, name), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := sourceFile{pkg: path.Dir(name), name: path.Base(name)}
		for _, spec := range parsed.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, p)
		}
		files = append(files, f)
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no source to look at: %v", err)
	}
	return files
}

const moduleDir = "../.."

// broken returns what a file imports against the table, with the cure.
func broken(f sourceFile) (faults []string) {
	row, known := packages[f.pkg]
	if !known {
		return []string{f.pkg + "/" + f.name + ": " + f.pkg + " has no row in the table of imports_test.go: put the file into a package that has, or add a row with its reason"}
	}
	for _, p := range f.imports {
		ours, isOurs := strings.CutPrefix(p, module+"/")
		switch {
		case f.test():
		case isOurs && slices.Contains(testOnly, ours):
			faults = append(faults, f.pkg+"/"+f.name+" imports "+ours+", which only tests may: move the file's code to a _test.go file")
		case isOurs && !slices.Contains(row.may, ours):
			faults = append(faults, f.pkg+"/"+f.name+" imports "+ours+", but "+f.pkg+" may import "+list(row.may)+": "+row.why+
				". Move the code to where the arrow may start, or hand what is needed in as a value or a callback")
		case strings.HasPrefix(p, sdk) && !mayUseSDK(f.pkg, f.name):
			faults = append(faults, f.pkg+"/"+f.name+" imports the MCP SDK: only tools.go, tool_*.go, bridge/stdio, bridge/localtab and cmd know MCP's Go types. Move what a client sees to the tool's file, and give the rest plain Go values")
		}
	}
	return faults
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing of ours"
	}
	return "only " + strings.Join(names, ", ")
}

func TestImportsPointDown(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range sourceFiles(t) {
		seen[f.pkg] = true
		for _, fault := range broken(f) {
			t.Error(fault)
		}
	}
	for pkg := range packages {
		if !seen[pkg] {
			t.Errorf("the table has a row for %s, which is no more: remove the row", pkg)
		}
	}
}

// The check itself sees each way to break an arrow.
func TestBrokenArrowsAreSeen(t *testing.T) {
	for _, c := range []struct {
		file sourceFile
		want string
	}{
		{sourceFile{"bridge", "tab.go", []string{module + "/state"}}, "bridge/tab.go imports state, but bridge may import nothing of ours"},
		{sourceFile{"jobs", "job.go", []string{module + "/transfer"}}, "jobs may import only notebook, bridge, state"},
		{sourceFile{"notebook", "cell.go", []string{sdk + "/mcp"}}, "imports the MCP SDK"},
		{sourceFile{"cmd/colab-mcp", "serve.go", []string{module + "/bridge/localtab/tabtest"}}, "which only tests may"},
		{sourceFile{"utils", "strings.go", nil}, "utils has no row"},
	} {
		if got := strings.Join(broken(c.file), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%+v: wanted a fault with %q, got %q", c.file, c.want, got)
		}
	}
	for _, f := range []sourceFile{
		{"notebook", "cell_test.go", []string{module + "/bridge/localtab/tabtest", sdk + "/mcp"}},
		{"notebook", "tool_outline.go", []string{sdk + "/mcp", module + "/bridge"}},
		{"bridge/stdio", "read.go", []string{sdk + "/jsonrpc"}},
	} {
		if got := broken(f); got != nil {
			t.Errorf("%+v: wanted no fault, got %q", f, got)
		}
	}
}

// A package says in doc.go (a command in main.go) what it is.
func TestEveryPackageHasADoc(t *testing.T) {
	has := map[string]bool{}
	for _, f := range sourceFiles(t) {
		has[f.pkg] = has[f.pkg] || f.name == "doc.go" || f.name == "main.go" && strings.HasPrefix(f.pkg, "cmd/")
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("%s has no doc.go: say there, in under 40 lines, what it is, the type to start from, what always holds and what it does not do", pkg)
		}
	}
}

// topLevel is all there may be in the module's folder.
var topLevel = map[string]bool{
	"cmd": true, "bridge": true, "notebook": true, "jobs": true, "transfer": true, "state": true,
	"go.mod": true, "go.sum": true, "Taskfile.yml": true, "README.md": true, "LICENSE": true, "CHANGELOG.md": true,
	".ci": true, ".git": true, ".gitignore": true, ".golangci.yml": true,
}

func TestNothingNewAtTheTopLevel(t *testing.T) {
	entries, err := os.ReadDir(moduleDir)
	if err != nil {
		t.Fatal(err)
	}
	ignored := ignoredByGit(t)
	for _, e := range entries {
		if !topLevel[e.Name()] && !slices.ContainsFunc(ignored, func(pattern string) bool { ok, _ := path.Match(pattern, e.Name()); return ok }) {
			t.Errorf("%s is new at the top level, where there is only %s: put it into the package it belongs to", e.Name(), strings.Join(slices.Sorted(maps.Keys(topLevel)), ", "))
		}
	}
}

// ignoredByGit are the patterns of .gitignore that may match at the top.
func ignoredByGit(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleDir, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(text)) {
		if p := strings.Trim(strings.TrimSpace(line), "/"); p != "" && !strings.Contains(p, "/") {
			patterns = append(patterns, p)
		}
	}
	return patterns
}
