package jobs

import (
	"context"
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
			if err := j.pause(ctx, it, &pause, began); err != nil {
				return err
			}
		}
	})
	j.settle(it, err)
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
		return beforehand(err)
	}
	if err := f(s); err != nil || !a.keep {
		dropScratch(j, s)
		return err
	}
	s.Release()
	return nil
}

// tryCode runs the code once, in one turn with its deadline.
func (m *Manager) tryCode(ctx context.Context, j *Job, it *item, s *notebook.Scratch, a adhoc) error {
	turn, err := m.opts.Bridge.Gate().Enter(ctx, j.String(), s.Tab().Gone())
	if err != nil {
		return err
	}
	defer turn.Leave()
	if !it.began.IsZero() {
		now, ok, err := notebook.Find(ctx, s.Tab(), s.ID(), s.Cell().Index)
		if err != nil || ok && m.ranAfterAll(j, it, now) {
			return err
		}
	}
	g := guard{scratch: s, tab: s.Tab()}
	if a.keep {
		g = guard{} // what the guard's cell says must not stand under the user's
	}
	defer func() { g.drop(j) }()
	return m.attempt(ctx, j, it, &g, attempt{
		tab: s.Tab(), source: a.code, run: s.Run,
		ready: func(ctx context.Context) (notebook.Cell, error) {
			err := beforehand(s.Set(ctx, a.code))
			return s.Cell(), err
		},
	})
}
