package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
	"colab-mcp/jobs"
)

func TestRangeIsRunById(t *testing.T) { // X1
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("sleep 10s\nprint a", "print b", "print c")
		run := d.start("run_cells", with{"start": 0, "end": 2})
		time.Sleep(5 * time.Second)
		d.tool("delete_cell", with{"cellId": ids[1]})
		d.tool("add_code_cell", with{"cellIndex": 0, "code": "print stranger"})
		got := as[cellsAnswer](t, run.wait())
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "missing", "ok"})
		equal(t, "status", got.Status, "error")
		equal(t, "ids", []string{got.Cells[0].ID, got.Cells[1].ID, got.Cells[2].ID}, ids)
		equal(t, "ran", d.ran(), []string{"sleep 10s\nprint a", "print c"})
		equal(t, "last", got.Cells[2].Stdout, "c\n")
	})
}

func TestCellDeletedAtTheLastMomentIsMissing(t *testing.T) { // X1
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a", "print b")
		// The tab's own words when a cell goes between our look and our run.
		d.far().Set(func(k *tabtest.Knobs) {
			k.Fail = map[string]string{"run_code_cell": "No cell was found with ID 'x'"}
			k.Delay = map[string]time.Duration{"run_code_cell": time.Second}
		})
		run := d.start("run_cells", with{"cell_ids": ids[:1]})
		time.Sleep(500 * time.Millisecond)
		d.tool("delete_cell", with{"cellId": ids[0]})
		got := as[cellsAnswer](t, run.wait())
		equal(t, "statuses", statuses(got.Cells), []string{"missing"})
	})
}

func TestFirstErrorSkipsTheRest(t *testing.T) { // X2
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a", "error ValueError no", "print c")
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "status", got.Status, "error")
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "error", "skipped"})
		if e := got.Cells[1].Error; e == nil || e.Name != "ValueError" || e.Value != "no" {
			t.Errorf("error: %+v", e)
		}
		equal(t, "ran", len(d.ran()), 2)

		got = as[cellsAnswer](t, d.call("run_cells", with{"start": 0, "stop_on_error": false}))
		equal(t, "going on", statuses(got.Cells), []string{"ok", "error", "ok"})
		equal(t, "status", got.Status, "error")
	})
}

func TestOrderIsAsAsked(t *testing.T) { // X2
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a", "print b", "print c")
		got := as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": []string{ids[2], ids[0], ids[2]}}))
		equal(t, "ran", d.ran(), []string{"print c", "print a", "print c"})
		equal(t, "first", got.Cells[0].ID, ids[2])
		equal(t, "index", *got.Cells[0].Index, 2)
	})
}

func TestUnknownIdRunsNothing(t *testing.T) { // X2, C8
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a")
		r := d.call("run_cells", with{"cell_ids": []string{ids[0], "nope"}})
		var missing *jobs.NotFoundError
		if !errors.As(r.err, &missing) || missing.ID != "nope" || !r.result.IsError {
			t.Errorf("got %v", r.err)
		}
		equal(t, "ran", len(d.ran()), 0)
		equal(t, "jobs", len(d.jobs.List()), 0)
	})
}

func TestTextCellsArePassedOver(t *testing.T) { // X2
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a", "print b")
		text := as[struct{ NewCellID string }](t, d.call("add_text_cell", with{"cellIndex": 1, "content": "# hello"})).NewCellID
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0, "end": 2}))
		equal(t, "by range", statuses(got.Cells), []string{"ok", "ok"})

		got = as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": []string{text, ids[1]}}))
		equal(t, "by id", statuses(got.Cells), []string{"not_code", "ok"})

		job := as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": []string{text, ids[1]}, "background": true}))
		equal(t, "total", job.Total, 1)
		equal(t, "ended total", d.ended(job.JobID).Total, 1)

		r := d.call("run_cells", with{"start": 1, "end": 1})
		got = as[cellsAnswer](t, r)
		if got.Cells == nil || len(got.Cells) != 0 || got.Status != "ok" {
			t.Errorf("a range of text alone: %s", r.text)
		}
	})
}

func TestRangesAreChecked(t *testing.T) { // C8
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a", "print b")
		for _, args := range []with{{}, {"cell_ids": []string{}}, {"start": 2}, {"start": 1, "end": 0}, {"start": -1}, {"start": 0, "cell_ids": ids},
			{"start": 0, "timeout_s": -1}, {"start": "two"}} {
			r := d.call("run_cells", args)
			var wrong *bridge.ArgumentError
			if !errors.As(r.err, &wrong) {
				t.Errorf("%v: got %v, %s", args, r.err, r.text)
			}
		}
		equal(t, "ran", len(d.ran()), 0)
		got := as[cellsAnswer](t, d.call("run_cells", with{"end": 99})) // clamped, as the tab does
		equal(t, "clamped", statuses(got.Cells), []string{"ok", "ok"})
		got = as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": `["` + ids[1] + `"]`})) // C5
		equal(t, "a string of JSON", statuses(got.Cells), []string{"ok"})
	})
}

func TestRunNotebookIsAJob(t *testing.T) { // issue 3, 2
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a", "sleep 100s", "print c")
		d.tool("add_text_cell", with{"cellIndex": 1, "content": "text"})
		began := time.Now()
		got := as[cellsAnswer](t, d.call("run_notebook", with{}))
		if got.JobID == "" || got.Status != "running" || got.Total != 3 || time.Since(began) != 0 {
			t.Fatalf("got %+v after %v", got, time.Since(began))
		}
		s := d.ended(got.JobID)
		equal(t, "status", s.Status, "done")
		equal(t, "kind", s.Kind, "run_notebook")
		equal(t, "done", []int{s.Done, s.Total}, []int{3, 3})
		equal(t, "elapsed", s.Elapsed, 100.0)
		equal(t, "started", s.Started.Equal(began.UTC()), true)
		equal(t, "cells", statuses(s.Cells), []string{"ok", "ok", "ok"})

		got = as[cellsAnswer](t, d.call("run_notebook", with{"background": false, "stop_on_error": "false"}))
		equal(t, "foreground", got.Status, "running") // it outlasts the soft limit
		equal(t, "elapsed", time.Since(began), 145*time.Second)
	})
}

func TestJobWithAnErrorIsFailed(t *testing.T) { // interface: failed, also with stop_on_error false
	virtual(t, setup{}, func(d *desk) {
		d.fill("error E x", "print b")
		for _, stop := range []bool{true, false} {
			id := d.background("run_notebook", with{"stop_on_error": stop})
			equal(t, "status", d.ended(id).Status, "failed")
		}
	})
}

func TestNoTabIsTheCallsErrorAndNoJob(t *testing.T) { // C1
	virtual(t, setup{noReopen: true}, func(d *desk) {
		d.fill("print a")
		d.drop()
		for tool, args := range map[string]with{"run_cells": {"start": 0}, "run_code": {"code": "print x"}, "run_notebook": {}, "run_code_cell": {"cellId": "x"}} {
			r := d.call(tool, args)
			var none *bridge.NoTabError
			if !errors.As(r.err, &none) {
				t.Errorf("%s: got %v", tool, r.err)
			}
		}
		equal(t, "jobs", len(d.jobs.List()), 0)
		if _, err := d.agent.ListTools(context.Background(), nil); err != nil {
			t.Error(err)
		}
	})
}
