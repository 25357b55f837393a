package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
	"colab-mcp/jobs"
	"colab-mcp/notebook"
	"colab-mcp/state"
)

func TestDropDuringARunIsNotReplayed(t *testing.T) { // L3
	for _, tool := range []string{"run_cells", "run_code", "run_code_cell"} {
		virtual(t, setup{}, func(d *desk) {
			ids := d.fill("print a\nsleep 60\nprint b", "print c")
			args := map[string]with{"run_cells": {"start": 0}, "run_code": {"code": "sleep 60"}, "run_code_cell": {"cellId": ids[0]}}[tool]
			d.far().Set(func(k *tabtest.Knobs) { k.DropRunAfter = 100 * time.Millisecond })
			began := time.Now()
			r := d.call(tool, args)
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: known after %v", tool, took)
			}
			var lost *jobs.LostError
			var unknown *bridge.UnknownError
			if !errors.As(r.err, &lost) || !errors.As(r.err, &unknown) || !strings.Contains(r.text, lost.JobID) {
				t.Fatalf("%s: %v", tool, r.err)
			}
			equal(t, tool, d.status(lost.JobID).Status, "lost")
			d.tool("get_cells", with{}) // re-opens
			time.Sleep(2 * time.Minute)
			equal(t, tool+" ran", len(d.ran()), 1)
			equal(t, "left behind", len(d.temporary(ids...)), 0)
		})
	}
}

func TestLostJobIsFoundWhenItsNotebookReturns(t *testing.T) { // issue 3, 7
	for _, c := range []struct {
		name, cell, next, status, cellStatus string
		away                                 time.Duration
	}{
		{"ended meanwhile", "sleep 10\nprint b", "", "done", "ok", time.Minute},
		{"raised meanwhile", "sleep 10\nerror E x", "", "failed", "error", time.Minute},
		{"runs on", "sleep 1h", "", "lost", "running", time.Minute},
		{"with cells after it", "sleep 10\nprint b", "print c", "failed", "ok", time.Minute},
	} {
		virtual(t, setup{noReopen: true}, func(d *desk) {
			sources := []string{"print a", c.cell}
			if c.next != "" {
				sources = append(sources, c.next)
			}
			d.fill(sources...)
			id := d.background("run_notebook", with{})
			time.Sleep(time.Second)
			d.drop()
			s := d.status(id)
			equal(t, c.name+": at once", s.Status, "lost")
			if s.Current != nil || s.Error == "" || !slices.Contains(statuses(s.Cells), "running") {
				t.Errorf("%s: %+v", c.name, s)
			}
			time.Sleep(c.away)
			d.open()
			synctest.Wait()
			s = d.status(id)
			equal(t, c.name, s.Status, c.status)
			if i := slices.IndexFunc(s.Cells, func(v cell) bool { return v.Index != nil && *v.Index == 1 }); s.Cells[i].Status != c.cellStatus {
				t.Errorf("%s: cell %+v", c.name, s.Cells[i])
			} else if c.cellStatus == "ok" && (s.Cells[i].Stdout != "b\n" || !strings.Contains(s.Cells[i].Note, "read back")) {
				t.Errorf("%s: cell %+v", c.name, s.Cells[i])
			}
			want := 2
			equal(t, c.name+": ran", len(d.ran()), want)
			if c.status == "lost" && s.Note == "" {
				t.Errorf("%s: no word of it: %+v", c.name, s)
			}
			if c.status != "lost" && s.Error != "" {
				t.Errorf("%s: still an error: %q", c.name, s.Error)
			}
		})
	}
}

func TestLostCodeIsReadBeforeItsCellIsSwept(t *testing.T) { // issue 3, 7; X4
	virtual(t, setup{noReopen: true}, func(d *desk) {
		ids := d.fill("print a")
		id := d.background("run_code", with{"code": "sleep 10\nprint found"})
		time.Sleep(time.Second)
		d.drop()
		time.Sleep(time.Minute)
		d.open()
		s := d.status(id)
		if s.Status != "done" || s.Cells[0].Stdout != "found\n" {
			t.Errorf("got %+v", s)
		}
		equal(t, "swept", len(d.temporary(ids...)), 0)
		equal(t, "temporary cells on disk", len(d.left()), 0)
	})
}

func TestChangedCellIsNotSwept(t *testing.T) { // X4
	virtual(t, setup{noReopen: true}, func(d *desk) {
		ids := d.fill("print a")
		d.background("run_code", with{"code": "sleep 10\nprint x"})
		time.Sleep(time.Second)
		ours := d.temporary(ids...)[0].ID
		d.tool("update_cell", with{"cellId": ours, "content": "the user's"})
		d.drop()
		d.open()
		left := d.temporary(ids...)
		if len(left) != 1 || left[0].Source != "the user's" {
			t.Errorf("left %+v", left)
		}
	})
}

func TestDropBetweenTwoCellsGoesOn(t *testing.T) { // design 4: nothing ran, so it may be run
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 10\nprint a", "print b")
		blocker := d.background("run_cells", with{"start": 0, "end": 0})
		time.Sleep(time.Second)
		id := d.background("run_cells", with{"start": 1})
		time.Sleep(time.Second)
		d.drop() // the second job waits for its turn
		equal(t, "what ran", d.ended(blocker).Status, "lost")
		s := d.ended(id)
		equal(t, "what waited", s.Status, "done")
		equal(t, "output", s.Cells[0].Stdout, "b\n")
		equal(t, "tabs opened", d.links(), 2)
		equal(t, "ran", d.ran(), []string{"sleep 10\nprint a", "print b"})
	})
}

func TestTabThatStaysAwayEndsTheJob(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 100", "print b", "print c")
		id := d.background("run_cells", with{"start": 1})
		d.ended(id)
		hold := d.start("run_code", with{"code": "sleep 10"})
		time.Sleep(time.Second)
		id = d.background("run_cells", with{"start": 1})
		d.leave()
		d.drop()
		hold.wait()
		s := d.ended(id)
		equal(t, "status", s.Status, "failed")
		if s.Error == "" || fmt.Sprint(statuses(s.Cells)) != "[cancelled cancelled]" {
			t.Errorf("got %+v", s)
		}
		equal(t, "ran", d.ran(), []string{"print b", "print c", "sleep 10"})
	})
}

func TestFailureAfterSomeCellsNamesTheJob(t *testing.T) { // what ran is not lost with the call
	virtual(t, setup{noReopen: true, soft: 2 * time.Minute}, func(d *desk) {
		d.fill("print a\nsleep 5", "print b")
		run := d.start("run_cells", with{"start": 0})
		time.Sleep(time.Second)
		other := d.start("run_code", with{"code": "sleep 30"})
		time.Sleep(10 * time.Second)
		d.drop()
		other.wait()
		r := run.wait()
		if id := d.jobs.List()[1].ID; r.err == nil || !strings.Contains(r.text, id) {
			t.Errorf("got %s", r.text)
		} else if s := d.status(id); s.Status != "failed" || s.Cells[0].Stdout != "a\n" {
			t.Errorf("got %+v", s)
		}
	})
}

// The tab drops at every message of a call, one after another. Whatever is lost,
// the code ran at most once, the job has one end, and no cell of ours stays.
func TestDropAtEveryStep(t *testing.T) { // X4, L3, design 7
	for _, args := range []with{{"code": "print x"}, {"code": "print x", "timeout_s": 5}, {"code": "print x", "keep_cell": true, "timeout_s": 5}} {
		for step := 1; step < 40; step++ {
			ended := false
			virtual(t, setup{}, func(d *desk) {
				ids := d.fill("print a")
				kernel := d.far().Kernel
				armed := withDeadlines(kernel)
				at := len(d.far().Received()) + step
				d.far().Set(func(k *tabtest.Knobs) { k.DropAtMessage = at })
				r := d.call("run_code", args)
				time.Sleep(time.Minute)
				d.tool("get_cells", with{}) // re-opens if need be
				time.Sleep(10 * time.Second)
				ended = d.links() == 1 // nothing was dropped
				ran := 0
				for _, source := range kernel.Ran() {
					if source == "print x" {
						ran++
					}
				}
				what := fmt.Sprintf("%v, step %d", args, step)
				if ran > 1 {
					t.Errorf("%s: ran %d times", what, ran)
				}
				for _, c := range d.temporary(ids...) {
					if args["keep_cell"] == nil || c.Source != "print x" {
						t.Errorf("%s: left %q, call %v", what, c.Source, r.err)
					}
				}
				s := d.status(d.newest())
				if r.err == nil && (s.Status != "done" || ran != 1) || s.Status == "running" || s.Status == "queued" {
					t.Errorf("%s: %s, ran %d, %v", what, s.Status, ran, r.err)
				}
				if errors.Is(r.err, bridge.ErrTabGone) && ran > 0 {
					t.Errorf("%s: said that nothing ran, and it did: %v", what, r.err)
				}
				if ended && r.err != nil {
					t.Errorf("%s: nothing was dropped, and %v", what, r.err)
				}
				if armed.left() {
					t.Errorf("%s: a deadline is left", what)
				}
			})
			if ended {
				if step < 8 {
					t.Errorf("%v: only %d steps", args, step)
				}
				break
			}
		}
	}
}

func TestAnswerToAnAddedCellThatIsLost(t *testing.T) { // design 7
	virtual(t, setup{noReopen: true}, func(d *desk) {
		ids := d.fill("print a")
		d.far().Set(func(k *tabtest.Knobs) { k.Swallow = []string{"add_code_cell"} })
		run := d.start("run_code", with{"code": "print x"})
		time.Sleep(time.Second)
		equal(t, "it was added", len(d.temporary(ids...)), 1)
		d.drop()
		r := run.wait()
		if !errors.Is(r.err, bridge.ErrTabGone) {
			t.Errorf("got %v", r.err)
		}
		equal(t, "status", d.status(d.newest()).Status, "failed")
		d.open()
		equal(t, "left behind", len(d.temporary(ids...)), 0)
		equal(t, "ran", len(d.ran()), 0)
	})
}

// An agent repeats the call while the lost cell, if there is one, is swept.
func TestSweepTellsALostCellFromItsRepeat(t *testing.T) { // X4, design 7
	for _, done := range []bool{false, true} {
		virtual(t, setup{noReopen: true}, func(d *desk) {
			ctx := context.Background()
			ids := d.fill("print a")
			add := len(d.far().Received()) + 2
			d.far().Set(func(k *tabtest.Knobs) { k.DropAtMessage = add })
			if r := d.call("run_code", with{"code": "print x"}); !errors.Is(r.err, bridge.ErrTabGone) {
				t.Fatalf("got %v", r.err)
			}
			nb := notebook.New(d.left(), nil)
			nb.Where = func() string { return d.bridge.Status().Notebook }
			d.open()
			if done {
				d.add("print x")
			}
			repeat, err := nb.Scratch(ctx, d.bridge.Live(), "", "print x")
			if err != nil {
				t.Fatal(err)
			}
			if err := nb.Sweep(ctx, d.bridge.Live()); err != nil {
				t.Fatal(err)
			}
			if there := d.temporary(ids...); len(there) != 1 || there[0].ID != repeat.ID() {
				t.Errorf("lost after it was added %v: want %s alone, have %+v", done, repeat.ID(), there)
			}
		})
	}
}

// snapshot is what a kill leaves of a store.
func snapshot(t testing.TB, b *state.Blobs, name string, limits state.Limits) *state.Blobs {
	t.Helper()
	left := memory(t, name, limits)
	keys := b.Keys()
	slices.Reverse(keys)
	for _, key := range keys {
		raw, err := b.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := left.Put(key, raw); err != nil {
			t.Fatal(err)
		}
	}
	return left
}

func TestJobOfAKilledServerIsLostAndFound(t *testing.T) { // issue 3, 2 and 7
	synctest.Test(t, func(t *testing.T) {
		first := newDesk(t, setup{})
		first.open()
		ids := first.fill("print a", "print b", "sleep 60\nprint c", "print d")
		id := first.background("run_notebook", with{})
		time.Sleep(time.Millisecond)
		code := first.background("run_code", with{"code": "print waits"})
		time.Sleep(5 * time.Second)
		records, outputs := snapshot(t, first.o.records, "jobs", jobs.RecordLimits), snapshot(t, first.o.outputs, "outputs", jobs.OutputLimits)
		temps := first.left()
		first.leave()
		far := first.far()
		first.close()

		second := newDesk(t, setup{records: records, outputs: outputs, temps: temps, knobs: tabtest.Knobs{Reuse: far}})
		defer second.close()
		s := second.status(id) // without a tab
		equal(t, "status", s.Status, "lost")
		equal(t, "cells", statuses(s.Cells), []string{"ok", "ok", "running"})
		equal(t, "what is known", s.Cells[1].Stdout, "b\n")
		equal(t, "done", []int{s.Done, s.Total}, []int{2, 4})
		if s.Error == "" || s.Elapsed < 5 {
			t.Errorf("got %+v", s)
		}
		equal(t, "what waited", second.status(code).Status, "lost")
		time.Sleep(2 * time.Minute)
		second.open()
		s = second.status(id)
		equal(t, "status", s.Status, "failed")
		if i := slices.IndexFunc(s.Cells, func(c cell) bool { return c.ID == ids[2] }); s.Cells[i].Stdout != "c\n" || s.Cells[i].Status != "ok" {
			t.Errorf("cell: %+v", s.Cells[i])
		}
		equal(t, "left behind", len(second.temporary(ids...)), 0)
		for _, source := range far.Kernel.Ran() {
			if source == "print d" || source == "print waits" {
				t.Errorf("%q was run", source)
			}
		}
	})
}

func TestLostRunIsNotSpokenOfAsRunning(t *testing.T) { // L3
	virtual(t, setup{noReopen: true}, func(d *desk) {
		d.fill("sleep 1h")
		id := d.background("run_notebook", with{"timeout_s": 0})
		time.Sleep(2 * time.Second)
		d.drop()
		time.Sleep(time.Hour)
		c := d.status(id).Cells[0]
		equal(t, "duration", c.DurationS, 2.0)
		if strings.Contains(c.Note, "no new output") {
			t.Errorf("note: %q", c.Note)
		}
	})
}

func TestOutputThatBreaksTheConnectionIsNotAskedForAgain(t *testing.T) { // I3, L3
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a")
		run := d.start("run_code", with{"code": "sleep 60"})
		time.Sleep(time.Second)
		d.far().InjectBinary(make([]byte, 64<<20+1))
		var lost *jobs.LostError
		if r := run.wait(); !errors.As(r.err, &lost) || !errors.Is(r.err, bridge.ErrTooLarge) {
			t.Fatal(r.err)
		}
		d.tool("get_cells", with{}) // re-opens
		time.Sleep(time.Minute)
		for _, m := range d.far().Calls("get_cells") {
			if strings.Contains(string(m.Args), `"includeOutputs":true`) {
				t.Errorf("the output is asked for again: %s", m.Args)
			}
		}
		equal(t, "left behind", len(d.temporary(ids...)), 0)
		s := d.status(lost.JobID)
		if s.Status != "lost" || !strings.Contains(s.Cells[0].Note, "too large") {
			t.Errorf("got %+v", s)
		}
	})
}

func TestCellWhoseOldOutputIsTooLargeIsNotRun(t *testing.T) { // I3
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("slow", "print b")
		d.far().Kernel.On("slow", func(_ context.Context, _ string, s tabtest.Screen) {
			s.Write(strings.Repeat("x", 600_000)) // more than is read back
			time.Sleep(5 * time.Second)
		})
		id := d.background("run_notebook", with{})
		time.Sleep(time.Second)
		d.far().Set(func(k *tabtest.Knobs) { k.Swallow = []string{"get_cells"} })
		time.Sleep(5 * time.Second)
		d.far().InjectBinary(make([]byte, 64<<20+1))
		s := d.ended(id)
		equal(t, "status", s.Status, "failed")
		equal(t, "cells", statuses(s.Cells), []string{"ok", "error"})
		if note := s.Cells[1].Note; !strings.Contains(note, "not run") {
			t.Errorf("note: %q", note)
		}
		equal(t, "ran", d.ran(), []string{"slow"})
		equal(t, "cells that are left", len(d.cells()), len(ids))
	})
}
