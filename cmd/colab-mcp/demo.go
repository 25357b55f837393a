package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/png"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge/localtab"
)

type demoCmd struct {
	Python string `placeholder:"CMD" help:"Interpreter for the cells. Default: COLAB_MCP_PYTHON, else the best python3 there is."`
}

func (demoCmd) Help() string {
	return "Starts this program as an agent would, with a stand-in for the Colab tab, and plays a short session. Nothing leaves this machine and nothing is kept. Exit status 0 means that every step went well."
}

// demoTime bounds the whole session.
const demoTime = 2 * time.Minute

func (d demoCmd) Run() error {
	if _, err := localtab.FindPython(d.Python); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), demoTime)
	defer stop()
	p := &player{out: os.Stdout}
	if err := p.start(ctx, d.Python); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer p.session.Close()
	p.say("An agent's session, with a stand-in for the Colab tab: → is what the agent calls, ← what it gets.\n")
	for i, step := range demoSteps {
		p.say("\n%d. %s\n", i+1, step.title)
		if err := step.play(ctx, p); err != nil {
			return fmt.Errorf("demo: step %d, %s: %w", i+1, strings.ToLower(step.title), err)
		}
	}
	if err := p.session.Close(); err != nil {
		return fmt.Errorf("demo: the server did not end well: %w", err)
	}
	p.say("\nAll went well. To use it with an agent: colab-mcp install\n")
	return nil
}

// player plays the agent over the server's real pipes and shows a person what
// goes back and forth.
type player struct {
	out     io.Writer
	session *mcp.ClientSession
	cells   []string // ids of the cells it has added
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p *player) start(ctx context.Context, python string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tab := shellQuote(self) + " tab"
	if python != "" {
		tab += " --python " + shellQuote(python)
	}
	server := exec.Command(self, "--ephemeral", "--browser", tab)
	server.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "colab-mcp-demo", Version: version}, nil)
	p.session, err = client.Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	return err
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// call calls a tool, shows both sides, and decodes the answer into out.
func (p *player) call(ctx context.Context, tool string, args map[string]any, out any) error {
	shown, err := json.Marshal(args)
	if err != nil {
		return err
	}
	p.say("   → %s %s\n", tool, clipped(string(shown), 140))
	began := time.Now()
	res, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err
	}
	var text string
	for _, c := range res.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			text += c.Text
		case *mcp.ImageContent:
			cfg, kind, err := image.DecodeConfig(bytes.NewReader(c.Data))
			if err != nil {
				return fmt.Errorf("an image that cannot be read: %w", err)
			}
			p.say("   ← picture: %s, %d × %d, %d bytes\n", kind, cfg.Width, cfg.Height, len(c.Data))
		}
	}
	if res.IsError {
		return errors.New(text)
	}
	p.say("   ← %s   (%.2f s)\n", clipped(text, 300), time.Since(began).Seconds())
	if out == nil {
		return nil
	}
	return json.Unmarshal([]byte(text), out)
}

func clipped(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}
