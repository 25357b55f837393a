package jobs_test

import (
	"strings"
	"testing"
	"time"

	"colab-mcp/bridge/localtab/tabtest"
)

func TestLongRunIsHandedBack(t *testing.T) { // C11, X5
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print cell")
		began := time.Now()
		got := as[codeAnswer](t, d.call("run_code", with{"code": "print so far\nsleep 134\nprint done"}))
		equal(t, "answered after", time.Since(began), 45*time.Second)
		equal(t, "status", got.Status, "running")
		equal(t, "output so far", got.Stdout, "so far\n")
		equal(t, "cells while it runs", len(d.temporary(ids...)), 1)

		s := d.ended(got.JobID)
		equal(t, "status", s.Status, "done")
		equal(t, "result", s.Cells[0].Stdout, "so far\ndone\n")
		equal(t, "duration", s.Cells[0].DurationS, 134.0)
		if d := time.Since(began); d < 134*time.Second || d > 135*time.Second {
			t.Errorf("known after %v", d)
		}
		equal(t, "deleted", len(d.temporary(ids...)), 0)
		equal(t, "deletions", len(d.far().Calls("delete_cell")), 2) // of the first empty cell, of ours
		equal(t, "asked again", d.status(got.JobID).Cells[0].Stdout, "so far\ndone\n")
	})
}

func TestRunOfCellsIsHandedBackWithTheFinishedOnes(t *testing.T) { // C11
	virtual(t, setup{soft: 5 * time.Second}, func(d *desk) {
		d.fill("print a", "print b\nsleep 60", "print c")
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		if got.Status != "running" || got.JobID == "" || len(got.Cells) != 2 {
			t.Fatalf("got %+v", got)
		}
		for _, c := range got.Cells {
			want := map[string]string{"ok": "a\n", "running": "b\n"}[c.Status]
			equal(t, c.Status, c.Stdout, want)
		}
		s := d.ended(got.JobID)
		equal(t, "statuses", statuses(s.Cells), []string{"ok", "ok", "ok"})
	})
}

func TestRunOfSixHours(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		d.fill("print epoch 1\nsleep 6h\nprint saved")
		id := d.background("run_notebook", with{})
		time.Sleep(3 * time.Hour)
		s := d.status(id)
		if s.Status != "running" || s.Current == nil || s.Current.Stdout != "epoch 1\n" || s.Current.DurationS != 3*3600 || len(s.Cells) != 0 {
			t.Errorf("half way: %+v", s)
		}
		time.Sleep(3 * time.Hour)
		s = d.ended(id)
		equal(t, "status", s.Status, "done")
		equal(t, "elapsed", s.Elapsed, 6*3600.0)
		equal(t, "output", s.Cells[0].Stdout, "epoch 1\nsaved\n")
	})
}

func TestSilentRunCarriesANote(t *testing.T) { // C14
	virtual(t, setup{soft: 30 * time.Second}, func(d *desk) {
		ids := d.fill("print x\nsleep 100", "print y")
		d.far().Set(func(k *tabtest.Knobs) { k.Swallow = []string{"run_code_cell"} })
		got := as[codeAnswer](t, d.call("run_code", with{"code": "pass"}))
		if got.Status != "running" || !strings.Contains(got.Note, "30 s") || !strings.Contains(got.Note, "input()") {
			t.Errorf("run_code: %+v", got)
		}
		d.far().Set(func(k *tabtest.Knobs) { k.Swallow = nil })
		d.far().Release()
		d.ended(got.JobID)

		run := as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": ids[:1]}))
		if note := run.Cells[0].Note; strings.Contains(note, "input()") {
			t.Errorf("output came, first read just now, and yet: %q", note)
		}
		time.Sleep(19 * time.Second)
		equal(t, "at 19 s", d.status(run.JobID).Current.Note, "")
		time.Sleep(time.Second)
		if note := d.status(run.JobID).Current.Note; !strings.Contains(note, "20 s") {
			t.Errorf("at 20 s: %q", note)
		}
		s := d.ended(run.JobID)
		equal(t, "at the end", s.Cells[0].Note, "")
	})
}

func TestWaitForTheTabCountsAgainstTheSoftLimit(t *testing.T) { // C11
	for tool, args := range map[string]with{"run_code": {"code": "sleep 60"}, "run_cells": {"start": 0}, "run_notebook": {"background": false}, "run_code_cell": {}} {
		virtual(t, setup{soft: 10 * time.Second}, func(d *desk) {
			ids := d.fill("sleep 60")
			if tool == "run_code_cell" {
				args["cellId"] = ids[0]
			}
			d.drop()
			began := time.Now()
			got := as[cellsAnswer](t, d.call(tool, args))
			equal(t, tool, []any{got.Status, time.Since(began)}, []any{"running", 10 * time.Second})
			equal(t, tool+" ends", d.ended(got.JobID).Status, "done")
		})
	}
}

func TestRunThatWaitsSaysForWhat(t *testing.T) { // design 2: "busy" can name it
	virtual(t, setup{soft: 10 * time.Second}, func(d *desk) {
		ids := d.fill("sleep 60", "print b")
		job := d.background("run_cells", with{"cell_ids": ids[:1]})
		time.Sleep(time.Second)
		for tool, args := range map[string]with{"run_code": {"code": "print x"}, "run_cells": {"cell_ids": ids[1:]}, "run_code_cell": {"cellId": ids[1]}} {
			got := as[struct{ Note string }](t, d.call(tool, args))
			if !strings.Contains(got.Note, job) {
				t.Errorf("%s: %+v", tool, got)
			}
		}
		d.ended(job)
		equal(t, "afterwards", d.ended(d.newest()).Note, "")
	})
}

func TestProgressIsSaidWhileItRuns(t *testing.T) { // C10
	virtual(t, setup{}, func(d *desk) {
		run := d.start("run_code", with{"code": "print epoch 1\nsleep 30\nprint epoch 2\nsleep 10"}, true)
		began := time.Now()
		run.wait()
		said := run.progress()
		at := 0.0 // seconds since the call began
		for _, p := range said {
			if p.Progress <= at || p.Progress > at+10 {
				t.Errorf("progress %v after %v", p.Progress, at)
			}
			at = p.Progress
		}
		if len(said) < 8 || len(said) > 14 {
			t.Errorf("%d reports in 40 s", len(said))
		}
		if took := time.Since(began).Seconds(); took > at+10 {
			t.Errorf("answered after %v, %v after the last report", took, took-at)
		}
		if words := said[0].Message; !strings.Contains(words, "epoch 1") {
			t.Errorf("first: %q", words)
		}
		if words := said[len(said)-1].Message; !strings.Contains(words, "epoch 2") {
			t.Errorf("last: %q", words)
		}
		time.Sleep(time.Minute)
		equal(t, "after the answer", len(run.progress()), len(said))

		quiet := d.start("run_code", with{"code": "sleep 20"})
		quiet.wait()
		equal(t, "without a token", len(quiet.progress()), 0)
	})
}

func TestWaitingForAJobIsBounded(t *testing.T) { // issue 3, 2
	virtual(t, setup{soft: 20 * time.Second}, func(d *desk) {
		d.fill("sleep 50")
		id := d.background("run_notebook", with{})
		for _, c := range []struct {
			wait any
			took time.Duration
		}{{0, 0}, {nil, 0}, {3, 3 * time.Second}, {"4", 4 * time.Second}, {1000, 20 * time.Second}, {1e300, 20 * time.Second}} {
			began := time.Now()
			d.tool("job_status", with{"job_id": id, "wait_s": c.wait})
			equal(t, "waited", time.Since(began), c.took)
		}
		began := time.Now()
		s := as[jobAnswer](t, d.call("job_status", with{"job_id": id, "wait_s": 15}))
		equal(t, "ends with the job", time.Since(began), 3*time.Second)
		equal(t, "status", s.Status, "done")
		if r := d.call("job_status", with{"job_id": id, "wait_s": -1}); r.err == nil {
			t.Errorf("wait_s -1: %s", r.text)
		}
	})
}

func TestLeavingAJobsStatusLeavesTheJob(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 50", "print b")
		id := d.background("run_notebook", with{})
		ask := d.start("job_status", with{"job_id": id, "wait_s": 40})
		time.Sleep(time.Second)
		ask.cancel()
		ask.wait()
		equal(t, "status", d.ended(id).Status, "done")
	})
}
