package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
	"colab-mcp/transfer"
)

// fileSize is what goes both ways.
const fileSize = 1 << 20

// files sends random bytes and fetches them back, as the server's tools do.
func (p *probe) files() (detail string, err error) {
	dir, err := os.MkdirTemp("", "colab-mcp-doctor-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	source, back := filepath.Join(dir, "sent"), filepath.Join(dir, "back")
	data := make([]byte, fileSize)
	rand.Read(data)
	if err := os.WriteFile(source, data, 0o600); err != nil {
		return "", err
	}
	local, err := notebook.NewLocal([]string{dir})
	if err != nil {
		return "", err
	}
	f, ch := &transfer.Files{Local: local}, &probeCells{p: p}
	defer func() { err = errors.Join(err, ch.drop()) }()
	remote := "colab-mcp-doctor-" + strings.ToLower(rand.Text()[:8])
	up, err := f.Upload(p.ctx, ch, transfer.Options{LocalPath: source, RemotePath: remote, Overwrite: true})
	if err != nil {
		return "", err
	}
	down, err := f.Download(p.ctx, ch, transfer.Options{LocalPath: back, RemotePath: up.RemotePath})
	_, _, gone := p.once(fmt.Sprintf("import os\nos.remove(%q)", up.RemotePath))
	if err = errors.Join(err, gone); err != nil {
		return "", err
	}
	if got, err := os.ReadFile(back); err != nil || string(got) != string(data) {
		return "", errors.New("what came back is not what was sent")
	}
	return fmt.Sprintf("1 MiB there in %.1f s and back in %.1f s, the same", up.Seconds, down.Seconds), nil
}

// probeCells is a transfer's channel in cells of ours. A transfer writes one
// while the other runs.
type probeCells struct {
	p   *probe
	ids [2]string
}

func (c *probeCells) Set(_ context.Context, i int, code string) (err error) {
	if c.ids[i] == "" {
		c.ids[i], err = c.p.cell(code)
		return err
	}
	t, err := c.p.call(bridge.UpdateCell, map[string]any{"cellId": c.ids[i], "content": code})
	_, err = t.must(err)
	return err
}

func (c *probeCells) Run(_ context.Context, i int) ([]notebook.Output, time.Duration, error) {
	t, err := c.p.run(c.ids[i])
	if _, err := t.must(err); err != nil {
		return nil, t.took, err
	}
	outs, err := notebook.DecodeOutputs(t.raw)
	return outs, t.took, err
}

func (c *probeCells) drop() error {
	var left error
	for _, id := range c.ids {
		if id != "" {
			left = errors.Join(left, c.p.remove(id))
		}
	}
	return left
}

// The sizes of cell that are tried, in bytes.
const (
	smallestTry = 256 << 10
	largestTry  = 8 << 20
)

func (p *probe) largest() (string, error) {
	id, err := p.cell("")
	if err != nil {
		return "", err
	}
	taken := 0
	end := fmt.Sprintf("%d MiB is taken, more was not tried", largestTry>>20)
	for size := smallestTry; size <= largestTry; size *= 2 {
		source := "#" + strings.Repeat("x", size-1)
		t, err := p.call(bridge.UpdateCell, map[string]any{"cellId": id, "content": source})
		if err == nil && t.form != "" {
			err = errors.New(t.refusal())
		}
		if err == nil {
			var after notebook.Cell
			after, _, err = notebook.Find(p.ctx, p.tab, id, p.size)
			if err == nil && after.Source != source {
				err = fmt.Errorf("%d bytes of it are in the cell", len(after.Source))
			}
		}
		if err != nil {
			end = fmt.Sprintf("%d KiB is the most: of %d KiB: %v", taken>>10, size>>10, err)
			break
		}
		taken = size
	}
	if taken == 0 {
		return "", errors.New(end)
	}
	return end, p.remove(id)
}
