package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"colab-mcp/bridge"
)

type entered struct {
	turn *bridge.Turn
	err  error
}

func enter(ctx context.Context, g *bridge.Gate, op string, gone <-chan struct{}) <-chan entered {
	c := make(chan entered, 1)
	go func() {
		turn, err := g.Enter(ctx, op, gone)
		c <- entered{turn, err}
	}()
	synctest.Wait()
	return c
}

func waiting(t *testing.T, c <-chan entered) {
	t.Helper()
	synctest.Wait()
	select {
	case e := <-c:
		t.Fatalf("did not wait: %v", e.err)
	default:
	}
}

// Issue 2, point 3; X3
func TestGateIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g bridge.Gate
		first := <-enter(t.Context(), &g, "first", nil)
		second, third := enter(t.Context(), &g, "second", nil), enter(t.Context(), &g, "third", nil)
		waiting(t, second)
		first.turn.Leave()
		got := <-second
		waiting(t, third)
		got.turn.Leave()
		(<-third).turn.Leave()
	})
}

// Design idea 2: waiting ends with the turn, the caller or the tab.
func TestGateWaitHasThreeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g bridge.Gate
		gone := make(chan struct{})
		holder := <-enter(t.Context(), &g, "holder", gone)
		ctx, leave := context.WithCancel(t.Context())
		impatient, orphan := enter(ctx, &g, "impatient", nil), enter(t.Context(), &g, "orphan", gone)
		patient := enter(t.Context(), &g, "patient", nil)

		leave()
		if e := <-impatient; !errors.Is(e.err, context.Canceled) || e.turn != nil {
			t.Errorf("the caller left: %v", e.err)
		}
		close(gone)
		if e := <-orphan; !errors.Is(e.err, bridge.ErrTabGone) || e.turn != nil {
			t.Errorf("the tab left: %v", e.err)
		}
		waiting(t, patient)
		holder.turn.Leave()
		if e := <-patient; e.err != nil {
			t.Errorf("the one that stayed: %v", e.err)
		} else {
			e.turn.Leave()
		}
	})
}

// Design idea 2: then re-check the tab.
func TestGateGivesNoTurnForATabThatIsGone(t *testing.T) {
	var g bridge.Gate
	gone := make(chan struct{})
	close(gone)
	if _, err := g.Enter(t.Context(), "op", gone); !errors.Is(err, bridge.ErrTabGone) {
		t.Errorf("a tab that is gone: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := g.Enter(ctx, "op", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	if op, _, held := g.Holder(); held {
		t.Errorf("%s holds the gate", op)
	}
}

// A turn that comes in the very moment its waiter leaves goes to the next.
func TestGateLosesNoTurn(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var g bridge.Gate
			holder := <-enter(t.Context(), &g, "holder", nil)
			ctx, leave := context.WithCancel(t.Context())
			leaver, next := enter(ctx, &g, "leaver", nil), enter(t.Context(), &g, "next", nil)
			go leave()
			holder.turn.Leave()
			if e := <-leaver; e.err == nil {
				e.turn.Leave()
			}
			(<-next).turn.Leave()
		})
	}
}

// Design idea 2: the gate knows its holder.
func TestGateNamesItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g bridge.Gate
		if _, _, held := g.Holder(); held {
			t.Error("an open gate is held")
		}
		first := <-enter(t.Context(), &g, "run_cells", nil)
		second := enter(t.Context(), &g, "upload_file", nil)
		time.Sleep(time.Minute)
		if op, since, held := g.Holder(); !held || op != "run_cells" || time.Since(since) != time.Minute {
			t.Errorf("held by %q for %v", op, time.Since(since))
		}
		first.turn.Leave()
		e := <-second
		if op, since, held := g.Holder(); !held || op != "upload_file" || time.Since(since) != 0 {
			t.Errorf("held by %q for %v, who came a minute ago and got in now", op, time.Since(since))
		}
		first.turn.Leave() // once more is harmless: the turn is another's
		if op, _, _ := g.Holder(); op != "upload_file" {
			t.Errorf("held by %q", op)
		}
		e.turn.Leave()
	})
}

// Whatever comes and goes, never two hold it, the line is kept, and nobody is forgotten.
func TestGateNeverHasTwoHolders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 40).Draw(rt, "steps")
		whose := rapid.SliceOfN(rapid.IntRange(0, 99), len(steps), len(steps)).Draw(rt, "whose")
		wrong := ""
		synctest.Test(t, func(t *testing.T) { wrong = driveGate(t.Context(), steps, whose) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// driveGate does the steps and returns what was wrong. 0 and 1: somebody comes, 2: the holder leaves, 3: a waiter
// loses patience, 4: a waiter's tab goes.
func driveGate(ctx context.Context, steps, whose []int) (wrong string) {
	type waiter struct {
		op    string
		leave context.CancelFunc
		gone  chan struct{}
		c     <-chan entered
	}
	var g bridge.Gate
	var holder string
	var turn *bridge.Turn
	var line []*waiter
	say := func(format string, args ...any) {
		if wrong == "" {
			wrong = fmt.Sprintf(format, args...)
		}
	}
	look := func() { // moves who got the turn from the line to the gate
		synctest.Wait()
		for i := 0; i < len(line); {
			w := line[i]
			select {
			case e := <-w.c:
				if e.err == nil && turn != nil {
					say("%s got in beside %s", w.op, holder)
				} else if e.err == nil && i != 0 {
					say("%s went before %s", w.op, line[0].op)
				}
				if e.err == nil {
					holder, turn = w.op, e.turn
				}
				w.leave()
				line = slices.Delete(line, i, i+1)
			default:
				i++
			}
		}
		if turn == nil && len(line) > 0 {
			say("%s waits at an open gate", line[0].op)
		}
		if op, _, held := g.Holder(); held != (turn != nil) || held && op != holder {
			say("the holder is %q, %v", op, held)
		}
	}
	leave := func() {
		turn.Leave()
		turn = nil
		look()
	}
	for i, step := range steps {
		switch {
		case step < 2:
			w := &waiter{op: fmt.Sprint("op", i), gone: make(chan struct{})}
			var own context.Context
			own, w.leave = context.WithCancel(ctx)
			w.c = enter(own, &g, w.op, w.gone)
			line = append(line, w)
		case step == 2 && turn != nil:
			leave()
		case step == 3 && len(line) > 0:
			line[whose[i]%len(line)].leave()
		case step == 4 && len(line) > 0:
			close(line[whose[i]%len(line)].gone)
		}
		look()
	}
	for turn != nil {
		leave()
	}
	if len(line) > 0 {
		say("%d are still in the line", len(line))
	}
	for _, w := range line {
		w.leave()
	}
	return wrong
}
