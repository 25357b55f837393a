package jobs

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"colab-mcp/notebook"
)

const (
	firstLook = time.Second     // pace of looking at a running cell,
	lastLook  = 5 * time.Second // backing off to this
	lookTime  = 5 * time.Second // a tab that does not answer by then is left alone,
	lastTime  = 2 * time.Second // or by then, when somebody waits for the answer
	quietFor  = 20 * time.Second
)

// peek reads the partial output of the cell that runs, at most once in a
// second whoever asks. What cannot be read leaves the last look; the run is
// never disturbed.
func (j *Job) peek(ctx context.Context) {
	select {
	case j.peeking <- struct{}{}:
		defer func() { <-j.peeking }()
	case <-ctx.Done():
		return
	}
	j.mu.Lock()
	it := j.now
	if it == nil || it.tab == nil || time.Since(it.peeked) < firstLook {
		j.mu.Unlock()
		return
	}
	it.peeked = time.Now()
	tab, id, at, over := it.tab, it.cell.ID, it.cell.Index, it.over
	j.mu.Unlock()

	ctx, stop := context.WithTimeout(ctx, lookTime)
	defer stop()
	defer context.AfterFunc(over, stop)()
	c, ok, err := notebook.Find(ctx, tab, id, at)
	if err != nil || !ok {
		return
	}
	shown := notebook.Render(c.Outputs)
	said := fnv.New64a()
	for _, o := range c.Outputs {
		said.Write(o.Raw)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now != it {
		return // it ended meanwhile, with its whole output
	}
	if len(c.Outputs) > 0 && said.Sum64() != it.said {
		it.said, it.heard = said.Sum64(), time.Now()
	}
	v := it.blank(notebook.StatusRunning)
	v.Show(shown)
	v.Status = notebook.StatusRunning // an error on show may be an earlier run's
	it.cell.Index = c.Index
	it.view, it.partial = v, c.Outputs
}

// lastPeek is a look for somebody who is to be answered now.
func (j *Job) lastPeek(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, lastTime)
	defer stop()
	j.peek(ctx)
}

// liveView is the view of a cell, with what can be said now of the one that
// runs. j.mu is held.
func (j *Job) liveView(it *item, now time.Time) notebook.View {
	v := it.view
	if it != j.now {
		return v
	}
	v.DurationS = notebook.Seconds(now.Sub(it.began))
	if quiet := now.Sub(it.heard); quiet >= quietFor {
		v.AddNote(fmt.Sprintf("no new output for %.0f s: it may be computing, or wait for input(), drive.mount() or a secret's dialog in the page, or behind a cell that the user runs", quiet.Seconds()))
	}
	switch left := it.left(now); {
	case it.latest > 0 && left >= 0:
		v.AddNote(fmt.Sprintf("its deadline interrupts it in %.0f s at the latest", left.Seconds()))
	case it.latest > 0:
		v.AddNote(fmt.Sprintf("its deadline was due %.0f s ago: %s", -left.Seconds(), overdue))
	}
	return v
}

// left is how long a cell with a deadline has, if it began when it was sent.
func (it *item) left(now time.Time) time.Duration { return it.latest - now.Sub(it.began) }

// overdue is why a deadline can be late.
const overdue = "the cell waits behind one that the user runs, or is in native code, which ends when it returns"

// headline is what a progress message says of the job: where it is, and the
// last line of output.
func (j *Job) headline() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	done, total := j.count()
	words := fmt.Sprintf("%s: %s", j.Kind, j.status)
	if total > 1 {
		words = fmt.Sprintf("%s: %d of %d cells", j.Kind, done, total)
	}
	if it := j.now; it != nil {
		text := strings.TrimRight(it.lastText(), "\n")
		if line := []rune(text[strings.LastIndexByte(text, '\n')+1:]); len(line) > 0 {
			if len(line) > 200 {
				line = line[len(line)-200:]
			}
			return words + " · " + string(line)
		}
	}
	if j.note != "" {
		return words + " · " + j.note
	}
	return words
}

// lastText is the stream that the cell wrote to last.
func (it *item) lastText() string {
	for _, o := range slices.Backward(it.partial) {
		switch {
		case o.Type != notebook.Stream:
		case o.Name == "stderr" && it.view.Stderr != "":
			return it.view.Stderr
		case o.Name != "stderr" && it.view.Stdout != "":
			return it.view.Stdout
		}
	}
	return ""
}

// Await waits until the job has ended, the limit has passed or the caller left
// (the context's error). tell, if not nil, is given words for a person at a
// pace that backs off, while partial output is read for them.
func (j *Job) Await(ctx context.Context, limit time.Duration, tell func(words string)) (ended bool, err error) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	pace := firstLook
	look := time.NewTimer(pace)
	defer look.Stop()
	for {
		select {
		case <-j.done:
			return true, nil
		default:
		}
		select {
		case <-j.done:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		case <-timeout.C:
			return false, nil
		case <-look.C:
			if tell != nil {
				j.peek(within)
				tell(j.headline())
			}
			pace = min(pace*3/2, lastLook)
			look.Reset(pace)
		}
	}
}
