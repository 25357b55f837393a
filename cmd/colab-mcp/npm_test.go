package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The programs that users have, unmodified, against ours. They are npm
// packages, pinned in testdata/clients; see its package.json. Nothing leaves
// the machine.

// npmProgram returns the command that runs a program of those packages. It
// needs no particular Node.js on the machine where one is pinned with them.
func npmProgram(t testing.TB, name string) []string {
	t.Helper()
	dir := os.Getenv("COLAB_MCP_CLIENTS")
	if dir == "" {
		dir = filepath.Join("testdata", "clients")
	}
	bin, err := filepath.Abs(filepath.Join(dir, "node_modules", ".bin"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(bin, name)
	if _, err := os.Stat(script); err != nil {
		requireReal(t, "the real clients are not installed: npm ci --ignore-scripts --prefix cmd/colab-mcp/testdata/clients, or name their folder in COLAB_MCP_CLIENTS")
	}
	node := filepath.Join(bin, "node")
	if _, err := os.Stat(node); err != nil {
		if node, err = exec.LookPath("node"); err != nil {
			requireReal(t, "node is not installed: Node.js 20 or newer runs the real clients")
		}
	}
	return []string{node, script}
}
