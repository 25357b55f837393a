package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"colab-mcp/notebook"
	"colab-mcp/notebook/kerneltest"
	"colab-mcp/transfer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDropped = errors.New("the tab is gone")

// channel runs cells in a kernel. Its faults happen at one step: steps are the calls of Set and Run, counted from 1.
type channel struct {
	k *kerneltest.Kernel

	mu    sync.Mutex // guards all below
	cells [2]string
	step  int
	at    int // of the fault; 0 = never
	fault fault
	gone  bool
	runs  int
	sent  int64
	busy  bool

	deaf    bool // no cell is run any more, and all answer nothing
	longest int  // outputs above are cut; 0 = never
}

type fault int

const (
	dropBefore fault = iota // the tab is gone before it gets the call
	dropAfter               // the call is carried out and the tab gone before it answers
	swallow                 // the cell is not run and answers nothing
	mute                    // the cell is run and its output lost
	double                  // the cell is run twice
	stale                   // the other cell is run instead
	flipCode                // a byte of the code arrives as another
	flipReply               // a byte of the reply does
	cut                     // the reply loses its second half
	restart                 // the kernel restarts before the call
	lastFault
)

func (f fault) String() string {
	return [...]string{"dropBefore", "dropAfter", "swallow", "mute", "double", "stale", "flipCode", "flipReply", "cut", "restart"}[f]
}

func (c *channel) next() (fault, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step++
	if c.gone {
		return 0, false, errDropped
	}
	if c.step != c.at {
		return 0, false, nil
	}
	c.gone = c.fault == dropBefore || c.fault == dropAfter
	if c.fault == dropBefore {
		return 0, false, errDropped
	}
	return c.fault, true, nil
}

func (c *channel) Set(ctx context.Context, cell int, code string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fault, now, err := c.next()
	if err != nil {
		return err
	}
	if now && fault == flipCode {
		code = flip(code)
	}
	c.mu.Lock()
	c.cells[cell] = code
	c.sent += int64(len(code))
	c.mu.Unlock()
	if now && fault == dropAfter {
		return errDropped
	}
	return nil
}

func (c *channel) Run(ctx context.Context, cell int) ([]notebook.Output, time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	fault, now, err := c.next()
	if err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	code, other := c.cells[cell], c.cells[1-cell]
	if c.busy {
		c.k.Fail("two runs in flight")
	}
	c.busy = true
	c.runs++
	deaf := c.deaf
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.busy = false
		c.mu.Unlock()
	}()
	if deaf {
		return nil, 0, nil
	}
	if !now {
		outs := c.k.Run(code)
		for i, out := range outs {
			if c.longest > 0 && len(out.Text) > c.longest {
				outs[i].Text = out.Text[:c.longest]
			}
		}
		return outs, time.Millisecond, nil
	}
	switch fault {
	case swallow:
		return nil, 0, nil
	case double:
		c.k.Run(code)
	case stale:
		code = other
	case flipCode:
		code = flip(code)
	case restart:
		c.k.Restart()
	}
	outs := c.k.Run(code)
	switch fault {
	case mute:
		outs = nil
	case dropAfter:
		return nil, 0, errDropped
	case flipReply:
		for i := range outs {
			outs[i].Text = flip(outs[i].Text)
		}
	case cut:
		for i := range outs {
			outs[i].Text = outs[i].Text[:len(outs[i].Text)/2]
		}
	}
	return outs, time.Millisecond, nil
}

// flip changes one character of base64, near the end where the data is.
func flip(s string) string {
	i := max(0, len(s)-len(s)/8-40)
	for i > 0 && !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", rune(s[i])) {
		i--
	}
	if s == "" {
		return s
	}
	other := byte('A')
	if s[i] == 'A' {
		other = 'B'
	}
	return s[:i] + string(other) + s[i+1:]
}

// place is a local and a remote directory.
type place struct {
	local, remote string
	files         *transfer.Files
}

func newPlace(t *testing.T) place {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := place{local: filepath.Join(base, "local"), remote: filepath.Join(base, "remote")}
	for _, dir := range []string{p.local, p.remote} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := notebook.NewLocal([]string{p.local})
	if err != nil {
		t.Fatal(err)
	}
	p.files = &transfer.Files{Local: l}
	return p
}

// random bytes do not compress; text does.
func random(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

func text(n int) []byte {
	return bytes.Repeat([]byte("2026-11-30,12.5,a word or two\n"), n/30+1)[:n]
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func holds(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	} else if !bytes.Equal(got, want) {
		t.Errorf("%s holds %d bytes, not the %d wanted", path, len(got), len(want))
	}
}

// only checks that a directory has these files and no others.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, "|") != strings.Join(names, "|") {
		t.Errorf("%s has %q, want %q", dir, got, names)
	}
}
