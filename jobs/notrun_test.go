package jobs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

func TestCellThatDidNotRunIsTriedUntilTheRuntimeIsThere(t *testing.T) { // design 6
	for _, tool := range []string{"run_cells", "run_code"} {
		virtual(t, setup{}, func(d *desk) {
			ids := d.fill("empty")
			args := map[string]with{"run_cells": {"start": 0}, "run_code": {"code": "empty"}}[tool]
			run := d.start(tool, args, true)
			time.Sleep(20 * time.Second)
			if said := run.progress(); len(said) == 0 || !strings.Contains(said[len(said)-1].Message, "waiting for the runtime") {
				t.Errorf("%s: progress %+v", tool, said)
			}
			r := run.wait()
			if took := len(d.ran()); took < 4 || took > 9 {
				t.Errorf("%s: tried %d times in 45 s", tool, took)
			}
			for i, gap := 1, time.Duration(0); i < len(d.far().Calls("run_code_cell")); i++ {
				calls := d.far().Calls("run_code_cell")
				now := calls[i].Time.Sub(calls[i-1].Time)
				if now < gap || now < time.Second || now > 8*time.Second {
					t.Errorf("%s: %v after %v", tool, now, gap)
				}
				gap = now
			}
			var c cell
			if tool == "run_cells" {
				c = as[cellsAnswer](t, r).Cells[0]
			} else {
				c = as[codeAnswer](t, r).cell
			}
			if c.Status != "not_run" || !strings.Contains(c.Note, "Run anyway") || !strings.Contains(c.Note, "starting") {
				t.Errorf("%s: %+v", tool, c)
			}
			equal(t, "job", d.status(d.newest()).Status, "failed")
			equal(t, "left behind", len(d.temporary(ids...)), 0)
		})
	}
}

func TestRuntimeThatComesUpIsWaitedFor(t *testing.T) { // design 6
	virtual(t, setup{}, func(d *desk) {
		d.fill("cell", "print after")
		began := time.Now()
		d.far().Kernel.On("cell", func(_ context.Context, _ string, s tabtest.Screen) { s.Write("up\n") })
		d.far().Set(func(k *tabtest.Knobs) {
			k.Answer = map[string]string{"run_code_cell": `{"content":[{"type":"text","text":"{\"outputs\":[]}"}],"structuredContent":{"outputs":[]}}`}
		})
		run := d.start("run_cells", with{"start": 0})
		time.Sleep(20 * time.Second)
		if op, _, held := d.bridge.Gate().Holder(); held {
			t.Errorf("the turn is held by %s while nothing runs", op)
		}
		d.far().Set(func(k *tabtest.Knobs) { k.Answer = nil })
		got := as[cellsAnswer](t, run.wait())
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "ok"})
		equal(t, "output", got.Cells[0].Stdout, "up\n")
		equal(t, "no word of it at the end", got.Cells[0].Note, "")
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
		equal(t, "ran", d.ran(), []string{"cell", "print after"})
	})
}

func TestNotRunStopsTheRest(t *testing.T) { // X2
	virtual(t, setup{soft: 5 * time.Second}, func(d *desk) {
		d.fill("empty", "print b")
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "statuses", statuses(got.Cells), []string{"not_run", "skipped"})
		equal(t, "status", got.Status, "error")
	})
}

func TestCancelWhileWaitingForTheRuntime(t *testing.T) { // C13, design 6
	for _, tool := range []string{"run_cells", "run_code"} {
		virtual(t, setup{}, func(d *desk) {
			ids := d.fill("empty", "print b")
			id := d.background(tool, map[string]with{"run_cells": {"start": 0}, "run_code": {"code": "empty"}}[tool])
			time.Sleep(1500 * time.Millisecond)
			ran := len(d.ran())
			got := as[struct{ Status, Note string }](t, d.call("cancel_job", with{"job_id": id}))
			equal(t, tool+" answers", got.Status, "cancelled")
			s := d.ended(id)
			equal(t, tool, s.Status, "cancelled")
			equal(t, "cell", s.Cells[0].Status, "cancelled")
			time.Sleep(time.Minute)
			equal(t, "tries after that", len(d.ran()), ran)
			equal(t, "left behind", len(d.temporary(ids...)), 0)
		})
	}
}

// IPython gives a blank cell no count, and it says nothing: as a tab answers
// that runs nothing.
func TestBlankCellRuns(t *testing.T) { // design 6
	virtual(t, setup{knobs: tabtest.Knobs{Options: localtab.Options{DialogOpen: true}}}, func(d *desk) {
		d.fill("", " \n\t")
		began := time.Now()
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "ok"})
		equal(t, "blank code", as[codeAnswer](t, d.call("run_code", with{"code": "\n"})).Status, "ok")
		equal(t, "took", time.Since(began), 0)
	})
}

// A tab that gives no counts cannot say whether a cell ran: nothing is run twice for that.
func TestTabWithoutCountsIsBelieved(t *testing.T) { // tab-protocol 5
	virtual(t, setup{knobs: tabtest.Knobs{NoCounts: true}}, func(d *desk) {
		d.fill("x = 1")
		for range 2 {
			got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
			equal(t, "status", statuses(got.Cells), []string{"ok"})
		}
		equal(t, "code", as[codeAnswer](t, d.call("run_code", with{"code": "y = 2"})).Status, "ok")
		equal(t, "ran", d.ran(), []string{"x = 1", "x = 1", "y = 2"})
	})
}

// A notebook saved with its counts and run on a fresh kernel shows the same
// count before and after.
func TestSavedCountIsNoSignOfNotRunning(t *testing.T) { // design 6
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("x = 1", "y = 2", "print z")
		as[cellsAnswer](t, d.call("run_cells", with{"start": 0})) // counts 1, 2, 3
		d.far().Kernel.Restart(context.Background())
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "ok", "ok"})
		equal(t, "restarted", []bool{got.Cells[0].Restarted, got.Cells[1].Restarted}, []bool{true, false})
		equal(t, "each ran once more", d.ran(), []string{"x = 1", "y = 2", "print z", "x = 1", "y = 2", "print z"})
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

func TestOpenDialogOverASavedNotebook(t *testing.T) { // design 6: the count stays, nothing runs
	virtual(t, setup{soft: 5 * time.Second}, func(d *desk) {
		ids := d.fill("x = 1")
		d.tool("run_cells", with{"start": 0})
		d.far().Set(func(k *tabtest.Knobs) {
			k.Answer = map[string]string{"run_code_cell": `{"content":[],"structuredContent":{"outputs":[]}}`}
		})
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "statuses", statuses(got.Cells), []string{"not_run"})
		equal(t, "left behind", len(d.temporary(ids...)), 0)
		equal(t, "ran", len(d.ran()), 1)
	})
}

func TestKernelRestartIsSaid(t *testing.T) { // issue 3, 5
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a", "print b")
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "at first", []bool{got.Cells[0].Restarted, got.Cells[1].Restarted}, []bool{false, false})
		d.far().Kernel.Restart(context.Background())
		r := d.call("run_code", with{"code": "print c"})
		if !as[codeAnswer](t, r).Restarted || !strings.Contains(r.text, `"kernel_restarted":true`) {
			t.Errorf("got %s", r.text)
		}
		equal(t, "said once", as[codeAnswer](t, d.call("run_code", with{"code": "print d"})).Restarted, false)
	})
}

func TestKernelThatDiesIsAnErrorAndNotRunAgain(t *testing.T) { // tab-protocol 4
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a", "restart", "print c")
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "error", "skipped"})
		c := got.Cells[1]
		if c.Error == nil || c.Error.Code != "kernel_died" || !c.Restarted {
			t.Errorf("got %+v", c)
		}
		equal(t, "ran", d.ran(), []string{"print a", "restart"})
		next := as[codeAnswer](t, d.call("run_code", with{"code": "print d"}))
		equal(t, "the next one", []any{next.Status, next.Restarted}, []any{"ok", false})
	})
	virtual(t, setup{}, func(d *desk) { // after a long time, on a runtime that never gave a count
		d.fill("sleep 30\nrestart")
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "statuses", statuses(got.Cells), []string{"error"})
		equal(t, "ran", len(d.ran()), 1)
	})
}

func TestDialogOpenFromTheStart(t *testing.T) { // tab-protocol 4
	virtual(t, setup{soft: 5 * time.Second, knobs: tabtest.Knobs{Options: localtab.Options{DialogOpen: true}}}, func(d *desk) {
		ids := d.fill("print a")
		equal(t, "run_code", as[codeAnswer](t, d.call("run_code", with{"code": "print x"})).Status, "not_run")
		equal(t, "run_cells", statuses(as[cellsAnswer](t, d.call("run_cells", with{"start": 0})).Cells), []string{"not_run"})
		r := d.call("run_code_cell", with{"cellId": ids[0]}) // what the tab said, and no more
		if r.text != `{"outputs":[]}` {
			t.Errorf("run_code_cell: %s", r.text)
		}
		equal(t, "left behind", len(d.temporary(ids...)), 0)
		equal(t, "ran", len(d.ran()), 0)
	})
}

// ipykernel drops what comes right behind an exception: the kernel lives, so
// nothing died, and the cell is tried again.
func TestCellThatALivingKernelDroppedIsTriedAgain(t *testing.T) { // design 6
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("error ValueError x", "empty")
		d.tool("run_code", with{"code": "print first"})
		run := d.start("run_cells", with{"cell_ids": ids, "stop_on_error": false})
		time.Sleep(500 * time.Millisecond)
		d.tool("update_cell", with{"cellId": ids[1], "content": "print taken"})
		got := as[cellsAnswer](t, run.wait())
		equal(t, "statuses", statuses(got.Cells), []string{"error", "ok"})
		equal(t, "output", got.Cells[1].Stdout, "taken\n")
		equal(t, "restarted", got.Cells[1].Restarted, false)
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

// A page may show the count of a silent run late; the cell is not run again.
func TestCellWhoseCountComesLateIsNotRunAgain(t *testing.T) { // design 4, 6
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("silent")
		d.far().Kernel.On("silent", func(context.Context, string, tabtest.Screen) {
			d.far().Set(func(k *tabtest.Knobs) {
				k.Answer = map[string]string{"get_cells": `{"content":[],"structuredContent":{"cells":[{"cell_type":"code","id":"` + ids[0] + `","source":"silent","execution_count":null,"outputs":[]}]}}`}
			})
		})
		run := d.start("run_cells", with{"cell_ids": ids})
		time.Sleep(500 * time.Millisecond)
		d.far().Set(func(k *tabtest.Knobs) { k.Answer = nil })
		got := as[cellsAnswer](t, run.wait())
		equal(t, "status", statuses(got.Cells), []string{"ok"})
		equal(t, "ran", d.ran(), []string{"silent"})
		if n := got.Cells[0].ExecutionCount; n == nil || *n != 1 {
			t.Errorf("count: %v", n)
		}
	})
}
