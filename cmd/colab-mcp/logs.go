package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"colab-mcp/state"
)

type logsCmd struct {
	Lines int `short:"n" default:"40" placeholder:"N" help:"How many lines. Default: 40."`
}

func (logsCmd) Help() string {
	return "The lines go to stdout, where the files are to stderr. No token is in a log, so it can be attached to a report."
}

func (c logsCmd) Run(s *settings) error {
	if c.Lines < 1 {
		return usageError{fmt.Errorf("-n: expected 1 or more lines, got %d", c.Lines)}
	}
	lines, err := state.Newest(s.Log, c.Lines)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no log in %s yet: a server writes it when it starts (--log or --state-dir name another place)", tilde(s.Log))
	case err != nil:
		return err
	}
	fmt.Fprintf(os.Stderr, "the newest of %s:\n", tilde(s.Log))
	for _, line := range lines {
		fmt.Println(line)
	}
	return nil
}
