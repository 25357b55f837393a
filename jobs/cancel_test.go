package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/jobs"
)

func TestClientCancelIsNotToldToTheTab(t *testing.T) { // C13
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a\nsleep 40\nprint b", "print never")
		run := d.start("run_cells", with{"start": 0})
		time.Sleep(5 * time.Second)
		run.cancel()
		run.wait()
		synctest.Wait()
		for _, m := range d.far().Received() {
			if m.Method == "notifications/cancelled" {
				t.Errorf("the tab was told: %s", m.Raw)
			}
		}
		if op, _, held := d.bridge.Gate().Holder(); !held || !strings.Contains(op, "run_cells") {
			t.Errorf("the turn is held by %q, %v", op, held)
		}
		if r := d.call("get_cells", with{}); r.err != nil { // reads keep working
			t.Error(r.err)
		}
		next := d.start("run_code", with{"code": "print next"})
		time.Sleep(5 * time.Second)
		equal(t, "in flight", d.far().RunsInFlight(), 1)

		id := d.jobs.List()[1].ID
		s := d.ended(id)
		equal(t, "status", s.Status, "cancelled")
		equal(t, "cells", statuses(s.Cells), []string{"ok", "cancelled"})
		equal(t, "the answer is kept", s.Cells[0].Stdout, "a\nb\n")
		equal(t, "next", as[codeAnswer](t, next.wait()).Stdout, "next\n")
		equal(t, "ran", d.ran(), []string{"print a\nsleep 40\nprint b", "print next"})
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

func TestCancelledCodeIsKeptAndItsCellDeleted(t *testing.T) { // C13, X4
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a")
		run := d.start("run_code", with{"code": "print x\nsleep 60"})
		time.Sleep(5 * time.Second)
		run.cancel()
		run.wait()
		s := d.ended(d.newest())
		equal(t, "status", s.Status, "done")
		equal(t, "output", s.Cells[0].Stdout, "x\n")
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

func TestCancelWhileWaitingForATurnRunsNothing(t *testing.T) { // C13
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("sleep 30")
		first := d.start("run_cells", with{"start": 0})
		time.Sleep(time.Second)
		second := d.start("run_code", with{"code": "print second"})
		third := d.start("run_cells", with{"start": 0})
		time.Sleep(time.Second)
		second.cancel()
		third.cancel()
		second.wait()
		third.wait()
		synctest.Wait()
		equal(t, "temporary cells", len(d.temporary(ids...)), 0)
		first.wait()
		equal(t, "ran", d.ran(), []string{"sleep 30"})
		for _, j := range d.jobs.List()[:2] {
			s := d.status(j.ID)
			equal(t, "status", s.Status, "cancelled")
			equal(t, "cells", statuses(s.Cells), []string{"cancelled"})
		}
	})
}

// The caller leaves in the very moment its turn comes: whatever of the two
// happens, the turn is given on and nothing is in flight that nobody owns.
func TestCancelAtTheMomentOfTheTurn(t *testing.T) { // C13
	for range 20 {
		virtual(t, setup{}, func(d *desk) {
			d.fill("sleep 30", "print b")
			first := d.start("run_cells", with{"cell_ids": []string{d.cells()[0].ID}})
			time.Sleep(time.Second)
			second := d.start("run_cells", with{"start": 1})
			time.Sleep(29 * time.Second) // now the first one ends
			second.cancel()
			second.wait()
			first.wait()
			s := d.ended(d.newest())
			ran := len(d.ran()) == 2
			if want := map[bool]string{true: "done", false: "cancelled"}[ran]; s.Status != want {
				t.Errorf("ran: %v, status %s", ran, s.Status)
			}
			equal(t, "the line moves on", as[codeAnswer](t, d.call("run_code", with{"code": "print c"})).Stdout, "c\n")
		})
	}
}

func TestCancelledJobFinishesItsCell(t *testing.T) { // X3
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a", "sleep 60\nprint b", "print c", "print d")
		id := d.background("run_notebook", with{})
		time.Sleep(10 * time.Second)
		type answer struct{ Status, Note string }
		for range 2 { // twice is fine
			got := as[answer](t, d.call("cancel_job", with{"job_id": id}))
			if got.Status != "running" || !strings.Contains(got.Note, "goes on until it ends") {
				t.Errorf("got %+v", got)
			}
		}
		s := d.ended(id)
		equal(t, "status", s.Status, "cancelled")
		equal(t, "cells", statuses(s.Cells), []string{"ok", "ok", "cancelled", "cancelled"})
		equal(t, "done", []int{s.Done, s.Total}, []int{2, 4})
		equal(t, "output", s.Cells[1].Stdout, "b\n")
		got := as[answer](t, d.call("cancel_job", with{"job_id": id}))
		if got.Status != "cancelled" || !strings.Contains(got.Note, "ended before") {
			t.Errorf("after the end: %+v", got)
		}
	})
}

func TestCancelledJobThatWaits(t *testing.T) { // X3
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 60", "print b")
		first := d.background("run_cells", with{"start": 0, "end": 0})
		time.Sleep(time.Millisecond)
		second := d.background("run_cells", with{"start": 1})
		time.Sleep(time.Second)
		equal(t, "queued", d.status(second).Status, "queued")
		got := as[struct{ Status, Note string }](t, d.call("cancel_job", with{"job_id": second}))
		if got.Status != "cancelled" || !strings.Contains(got.Note, "nothing of it runs") {
			t.Errorf("got %+v", got)
		}
		equal(t, "status", d.ended(second).Status, "cancelled")
		equal(t, "the other", d.ended(first).Status, "done")
		equal(t, "ran", d.ran(), []string{"sleep 60"})
	})
}

func TestCancelOfTheLastCell(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 60\nprint b")
		id := d.background("run_notebook", with{})
		time.Sleep(time.Second)
		d.tool("cancel_job", with{"job_id": id})
		s := d.ended(id)
		equal(t, "all of it ran", s.Status, "done")
	})
}

func TestForegroundCallOfACancelledJobIsAnswered(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("sleep 20", "print b")
		block := d.start("run_code", with{"code": "sleep 10"})
		time.Sleep(time.Second)
		calls := map[string]*pending{
			"run_cells":     d.start("run_cells", with{"cell_ids": ids}),
			"run_code":      d.start("run_code", with{"code": "print x"}),
			"run_code_cell": d.start("run_code_cell", with{"cellId": ids[0]}),
		}
		time.Sleep(time.Second)
		for _, j := range d.jobs.List()[:3] {
			d.tool("cancel_job", with{"job_id": j.ID})
		}
		equal(t, "run_cells", statuses(as[cellsAnswer](t, calls["run_cells"].wait()).Cells), []string{"cancelled", "cancelled"})
		equal(t, "run_code", as[codeAnswer](t, calls["run_code"].wait()).Status, "cancelled")
		if r := calls["run_code_cell"].wait(); r.err == nil || strings.Contains(r.text, "running") {
			t.Errorf("run_code_cell: %v %s", r.err, r.text)
		}
		block.wait()
		equal(t, "ran", len(d.ran()), 1)
	})
}

func TestUnknownJob(t *testing.T) { // C8
	virtual(t, setup{}, func(d *desk) {
		for _, tool := range []string{"job_status", "cancel_job"} {
			r := d.call(tool, with{"job_id": "job-nope"})
			var missing *jobs.NotFoundError
			if !errors.As(r.err, &missing) || missing.What != "job" || !r.result.IsError {
				t.Errorf("%s: %v", tool, r.err)
			}
		}
	})
}

func TestCloseDuringEverything(t *testing.T) { // L14, for the jobs
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 60", "print b")
		long := d.background("run_notebook", with{})
		waits := d.background("run_code", with{"code": "print x"})
		held := d.start("run_cells", with{"start": 1})
		asks := d.start("job_status", with{"job_id": long, "wait_s": 40}, true)
		time.Sleep(2 * time.Second)
		began := time.Now()
		d.jobs.Stop()
		d.bridge.Close()
		d.jobs.Close()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		held.wait()
		asks.wait()
		s := d.status(long)
		equal(t, "what ran", s.Status, "lost")
		s = d.status(waits)
		if s.Status != "cancelled" || !strings.Contains(s.Note, "server stopped") {
			t.Errorf("what waited: %+v", s)
		}
		if r := d.call("run_code", with{"code": "print late"}); r.err == nil {
			t.Errorf("after the end: %s", r.text)
		}
		equal(t, "ran", len(d.ran()), 1)
	})
}
