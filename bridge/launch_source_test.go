package bridge

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// O2: on Windows a link is opened by the shell's own call. A command line would
// cut it at its first &, and what is built for Windows is not run here.
func TestWindowsOpensLinksWithoutACommandLine(t *testing.T) {
	windows := build.Default
	windows.GOOS, windows.CgoEnabled = "windows", false
	opener, err := windows.Import("github.com/pkg/browser", ".", 0)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"launch_windows.go"}
	for _, name := range opener.GoFiles {
		if strings.HasSuffix(name, "_windows.go") {
			files = append(files, filepath.Join(opener.Dir, name))
		}
	}
	called := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote("os/exec") }) {
			t.Errorf("%s starts commands", name)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				called[s.Sel.Name] = true
			}
			return true
		})
	}
	if !called["OpenURL"] || !called["ShellExecute"] {
		t.Errorf("no OpenURL of ours that ends in ShellExecute in %q", files)
	}
}
