package jobs

import (
	"context"
	"fmt"
	"time"

	"colab-mcp/notebook"
)

// adhoc is code to run that is no cell of the notebook.
type adhoc struct {
	code, language string
	keep           bool // leave the cell in the notebook
	timeout        time.Duration
}

// startCode makes a job of ad-hoc code, in a temporary cell.
func (m *Manager) startCode(a adhoc) *Job {
	j := m.job("run_code")
	j.items = []*item{{counted: true, latest: a.timeout, temp: !a.keep}}
	return m.start(j, func(ctx context.Context, j *Job) error { return m.runCode(ctx, j, a) })
}

func (m *Manager) runCode(ctx context.Context, j *Job, a adhoc) error {
	it := j.items[0]
	err := m.withScratch(ctx, j, a, func(s *notebook.Scratch) error {
		began, pause := time.Now(), time.Second
		for {
			err := m.tryCode(ctx, j, it, s, a)
			if err != nil || j.statusOf(it) != notebook.StatusNotRun || time.Since(began)+pause > m.startingUp() {
				return err
			}
			if !j.pause(ctx, &pause, began) {
				return nil
			}
		}
	})
	if err != nil && ctx.Err() != nil && !it.finished() && it.began.IsZero() {
		j.set(it, notebook.StatusCancelled)
	}
	return err
}

// withScratch does f with a temporary cell, which is gone afterwards unless it
// is to be kept.
func (m *Manager) withScratch(ctx context.Context, j *Job, a adhoc, f func(*notebook.Scratch) error) error {
	tab, err := m.opts.Bridge.Tab(ctx, nil)
	if err != nil {
		return err
	}
	s, err := m.opts.Notebook.Scratch(ctx, tab, a.language, a.code)
	if err != nil {
		return err
	}
	if err := f(s); err != nil || !a.keep {
		dropScratch(j, s)
		return err
	}
	if err := s.Set(context.WithoutCancel(ctx), a.code); err != nil {
		return err
	}
	s.Release()
	return nil
}

// tryCode runs the code once, in one turn with its deadline.
func (m *Manager) tryCode(ctx context.Context, j *Job, it *item, s *notebook.Scratch, a adhoc) error {
	turn, err := m.opts.Bridge.Gate().Enter(ctx, fmt.Sprintf("%s (%s)", j.Kind, j.ID), s.Tab().Gone())
	if err != nil {
		return err
	}
	defer turn.Leave()
	g := guard{scratch: s, tab: s.Tab()}
	if a.timeout > 0 {
		if err := g.arm(ctx, m, s.Tab(), a.timeout, a.code); err != nil {
			return err
		}
		if err := s.Set(ctx, a.code); err != nil {
			return err
		}
	}
	j.begin(it, s.Tab(), s.Cell())
	ran, err := s.Run()
	if err != nil {
		j.stop(it)
		return err
	}
	var fired *notebook.Fired
	if a.timeout > 0 {
		fired = g.fired(ctx)
	}
	m.finish(j, it, ran, fired)
	return nil
}
