package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// The test binary is also the program, and the browser command of the Chromium
// tests: under these names it is on the PATH of every test. So a test that
// starts the program runs what was just compiled, race detector included.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){
		"colab-mcp": main,
		echoSocket:  serveEcho,
		handOver:    func() { os.Exit(handOverLink(os.Args[1:])) },
	})
}

// leakless fails a run that leaves goroutines behind.
type leakless struct{ *testing.M }

func (m leakless) Run() int {
	code := m.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines were left behind:", err)
		return 1
	}
	return code
}
