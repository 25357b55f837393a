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

// npmProgram returns a command that runs a program of those packages. Where a
// Node.js for the machine is pinned with them it is used, also for what the
// program starts: a distribution's own may be too old.
func npmProgram(t testing.TB, name string, arg ...string) *exec.Cmd {
	t.Helper()
	dir := os.Getenv("COLAB_MCP_CLIENTS")
	if dir == "" {
		dir = filepath.Join("testdata", "clients")
	}
	modules, err := filepath.Abs(filepath.Join(dir, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(modules, ".bin", name)
	if _, err := os.Stat(script); err != nil {
		requireReal(t, "the real clients are not installed: npm ci --ignore-scripts --prefix cmd/colab-mcp/testdata/clients, or name their folder in COLAB_MCP_CLIENTS")
	}
	node, err := exec.LookPath("node")
	if pinned, _ := filepath.Glob(filepath.Join(modules, "node-*-*", "bin", "node")); len(pinned) > 0 {
		node = pinned[0]
	} else if err != nil {
		requireReal(t, "node is not installed: Node.js 22.19 or newer runs the real clients")
	}
	cmd := exec.Command(node, append([]string{script}, arg...)...)
	cmd.Env = environment("PATH=" + filepath.Dir(node) + string(filepath.ListSeparator) + os.Getenv("PATH"))
	cmd.WaitDelay = patience
	return cmd
}
