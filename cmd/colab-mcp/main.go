// Command colab-mcp lets an AI agent drive the Google Colab notebook that its
// user has open in a browser.
//
//	agent (Gemini CLI, Windsurf, Claude Code, …)
//	  ⇅  stdio, MCP                        bridge/stdio       survives bad lines, splices raw results
//	tool handler                           */tools.go, */tool_*.go
//	  ⇅  Go calls                          jobs · transfer · notebook
//	turn  (one execution at a time)        bridge/gate.go
//	  ⇅
//	tab   (one live connection)            bridge/tab.go
//	  ⇅  WebSocket, JSON-RPC, we are the client
//	Colab tab in the user's browser        or bridge/localtab: the same seven tools over a local Jupyter kernel
//
// Without a subcommand it is the server that an agent starts: stdin and stdout
// carry MCP and nothing else. This package is the process: flags (flags.go),
// wiring (serve.go), what agents are told (instructions.md) and the words for
// every failure (failures.go). imports_test.go holds which package may import
// which.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

func main() { os.Exit(run(os.Args[1:])) }

// run is the program. Exit status 2 is a wrong command line, 1 a failure.
func run(args []string) int {
	unsetEmpty()
	findHome()
	var cli commandLine
	parser, err := kong.New(&cli,
		kong.Name("colab-mcp"),
		kong.Description("Lets an AI agent drive the Google Colab notebook that you have open in your browser.\n\nWithout a command it serves MCP on stdin and stdout: that is what an agent starts. See: colab-mcp install."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"version": versionText()},
		kong.Writers(os.Stdout, os.Stderr),
		kong.Exit(os.Exit),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "colab-mcp:", err)
		return 2
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "colab-mcp:", err)
		return 2
	}
	if f := unused(ctx); f != nil {
		fmt.Fprintf(os.Stderr, "colab-mcp: --%s is the server's: %s has no use for it\n", f.Name, ctx.Selected().Name)
		return 2
	}
	if err := ctx.Run(&cli.settings); err != nil {
		fmt.Fprintln(os.Stderr, "colab-mcp:", err)
		if _, wrong := errors.AsType[usageError](err); wrong { // kong joins errors
			return 2
		}
		return 1
	}
	return 0
}

// usageError is a wrong command line that the parser cannot see.
type usageError struct{ error }
