package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

// guard arms deadlines inside the kernel, since nothing out here can stop a
// running cell. It owns one temporary cell for all deadlines of a job. The
// caller holds the turn.
type guard struct {
	scratch *notebook.Scratch
	own     bool // the scratch is the guard's to drop
	token   string
	tab     *bridge.Tab
}

// sideTime bounds what is done for a run beside it.
const sideTime = 30 * time.Second

const guardTitle = "colab-mcp · deadline"

// arm sets a deadline for the cell of that source that runs next. A runtime
// that cannot is an error: a deadline that does not hold was not asked for.
func (g *guard) arm(ctx context.Context, m *Manager, tab *bridge.Tab, after time.Duration, source string) error {
	if g.scratch == nil || g.tab != tab {
		s, err := m.opts.Notebook.Scratch(ctx, tab, "", "#@title "+guardTitle)
		if err != nil {
			return beforehand(err)
		}
		g.scratch, g.tab, g.own = s, tab, true
	}
	g.token = uuid.NewString()
	var armed notebook.Armed
	deadline := notebook.Deadline{Token: g.token, DeadlineS: after.Seconds(), Source: notebook.SourceSum(source)}
	if err := notebook.Kernel.Do(ctx, g.run, guardTitle, "arm", deadline, &armed); err != nil {
		return fmt.Errorf("set the deadline: %w", beforehand(err))
	}
	if !armed.Armed {
		return &NoDeadlineError{armed.Why}
	}
	return nil
}

// fired asks the kernel whether the deadline passed, and disarms it. nil: the
// kernel could not be asked, as after a restart.
func (g *guard) fired(ctx context.Context) *notebook.Fired {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), sideTime)
	defer stop()
	for range askFired {
		var f notebook.Fired
		err := notebook.Kernel.Do(ctx, g.run, guardTitle, "fired", notebook.Token{Token: g.token}, &f)
		if err == nil {
			return &f
		}
		if !errors.Is(err, errNotTaken) {
			return nil
		}
	}
	return nil
}

// askFired is how often the kernel is asked: right behind an exception, such as
// the deadline's own, it may drop a cell.
const askFired = 3

func (g *guard) run(ctx context.Context, code string) ([]notebook.Output, error) {
	if err := g.scratch.Set(ctx, code); err != nil {
		return nil, err
	}
	ran, err := g.scratch.Run()
	g.scratch.Unsaid(ran)
	if err == nil && ran.NotRun {
		err = errNotTaken
	}
	return ran.Outputs, err
}

// errNotTaken says that the runtime did not run our own cell.
var errNotTaken = errors.New("the runtime took no cell")

// beforehand is the error of what is done for a cell before it runs: when the
// tab leaves then, the cell itself did not begin.
func beforehand(err error) error {
	if unanswered(err) {
		return fmt.Errorf("%w (%v)", bridge.ErrTabGone, err)
	}
	return err
}

// drop deletes the guard's cell, if it has one.
func (g *guard) drop(j *Job) {
	if g.scratch != nil && g.own {
		dropScratch(j, g.scratch)
	}
}

// dropScratch deletes a temporary cell; a failure is a word beside the result.
func dropScratch(j *Job, s *notebook.Scratch) {
	ctx, stop := context.WithTimeout(context.Background(), sideTime)
	defer stop()
	if err := s.Drop(ctx); err != nil {
		j.Note(fmt.Sprintf("a temporary cell (%s) is still there and is deleted when the notebook is next connected: %v", s.ID(), err))
	}
}

// NoDeadlineError says that this runtime cannot stop a cell by itself.
type NoDeadlineError struct{ Why string }

func (e *NoDeadlineError) Error() string { return "timeout_s cannot be kept here: " + e.Why }
