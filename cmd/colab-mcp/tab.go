package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"colab-mcp/bridge/localtab"
)

type tabCmd struct {
	URL      string `arg:"" name:"url" help:"The link that would go to a browser, with its token in the fragment."`
	Notebook string `placeholder:"FILE.ipynb" help:"Serve this notebook file and save changes to it. Default: a new one in memory."`
	Python   string `placeholder:"CMD" help:"Interpreter for the cells. Default: COLAB_MCP_PYTHON, else the best python3 there is."`
	Plain    bool   `help:"Plain Python, even where ipykernel is installed."`
}

func (tabCmd) Help() string {
	return "Works offline, for example:\n  colab-mcp --browser \"colab-mcp tab --notebook n.ipynb\"\nCtrl+C (SIGINT) interrupts the cell that runs; SIGTERM ends the tab."
}

// Run serves until the bridge hangs up. SIGINT interrupts the cell that runs.
func (c tabCmd) Run() error {
	file, err := absolute(c.Notebook)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	tab, err := localtab.New(localtab.Options{Notebook: file, Python: c.Python, Plain: c.Plain})
	if err != nil {
		return err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-interrupts:
				tab.Interrupt()
			case <-ended:
				return
			}
		}
	}()
	defer close(ended)
	conn, err := tab.Dial(ctx, c.URL)
	if err == nil {
		fmt.Fprintln(os.Stderr, "colab-mcp tab: connected")
		err = tab.Serve(ctx, conn)
	}
	return errors.Join(err, tab.Close())
}
