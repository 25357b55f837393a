package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"colab-mcp/bridge/localtab/tabtest"
	"colab-mcp/jobs"
	"colab-mcp/state"
)

type jobsAnswer struct {
	Jobs    []jobAnswer
	Omitted int `json:"jobs_omitted"`
}

func TestNewestJobsAreKeptForADay(t *testing.T) { // issue 3, 2
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a")
		first := d.background("run_notebook", with{})
		d.ended(first)
		time.Sleep(time.Hour)
		for i := range 64 {
			as[codeAnswer](t, d.call("run_code", with{"code": fmt.Sprintf("print %d", i)}))
		}
		if r := d.call("job_status", with{"job_id": first}); r.err == nil {
			t.Errorf("the 65th is still there: %s", r.text)
		}
		list := as[jobsAnswer](t, d.call("list_jobs", with{})).Jobs
		equal(t, "kept", len(list), 64)
		equal(t, "on disk", len(d.o.records.Keys()), 64)
		equal(t, "newest first", d.status(list[0].JobID).Cells[0].Stdout, "63\n")
		equal(t, "oldest last", d.status(list[63].JobID).Cells[0].Stdout, "0\n")
		equal(t, "line", []any{list[0].Kind, list[0].Status, list[0].Done, list[0].Total}, []any{"run_code", "done", 1, 1})
		time.Sleep(24*time.Hour + time.Second)
		equal(t, "after a day", len(as[jobsAnswer](t, d.call("list_jobs", with{})).Jobs), 0)
		equal(t, "on disk", len(d.o.records.Keys()), 0)
	})
}

func TestRunningJobIsNeverForgotten(t *testing.T) { // issue 3, 2
	virtual(t, setup{}, func(d *desk) {
		cells := make([]string, 75)
		for i := range cells {
			cells[i] = "sleep 30m"
		}
		d.fill(cells...)
		id := d.background("run_notebook", with{})
		for range 70 {
			d.background("run_code", with{"code": "print x"})
			time.Sleep(30 * time.Minute)
			if !slices.Contains(d.o.records.Keys(), id) {
				t.Fatal("it is not on disk any more")
			}
		}
		equal(t, "status", d.status(id).Status, "running")
		equal(t, "at its end", d.ended(id).Status, "done")
		d.background("run_code", with{"code": "print x"})
		equal(t, "after its end", d.status(id).Status, "done")
	})
}

func TestListOfJobsKeepsToTheBudget(t *testing.T) { // R7
	virtual(t, setup{maxOutput: 1000}, func(d *desk) {
		for range 20 {
			as[codeAnswer](t, d.call("run_code", with{"code": "print x"}))
		}
		r := d.call("list_jobs", with{})
		list := as[jobsAnswer](t, r)
		if n := utf8.RuneCountInString(r.text); n > 1000 || len(list.Jobs) < 3 || len(list.Jobs)+list.Omitted != 20 {
			t.Errorf("%d characters, %d jobs, %d left out", n, len(list.Jobs), list.Omitted)
		}
	})
}

func TestRestartedServerStillAnswers(t *testing.T) { // issue 3, 2
	dir := t.TempDir()
	blobs := func(t *testing.T) (*state.Dir, *state.Blobs, *state.Blobs) {
		d, err := state.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		records, err := d.Blobs("jobs", jobs.RecordLimits)
		if err != nil {
			t.Fatal(err)
		}
		outputs, err := d.Blobs("outputs", jobs.OutputLimits)
		if err != nil {
			t.Fatal(err)
		}
		return d, records, outputs
	}
	script, want := lines(5_000)
	ids := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		disk, records, outputs := blobs(t)
		defer disk.Close()
		d := newDesk(t, setup{records: records, outputs: outputs})
		defer d.close()
		d.open()
		d.fill("print a", "error E x", "print c")
		ids["failed"] = d.background("run_notebook", with{})
		d.ended(ids["failed"])
		time.Sleep(time.Second)
		ids["done"] = d.background("run_code", with{"code": script})
		d.ended(ids["done"])
		d.far().Set(func(k *tabtest.Knobs) { k.Swallow = []string{"run_code_cell"} })
		ids["lost"] = d.background("run_code", with{"code": "print y"})
		time.Sleep(time.Second)
		ids["cancelled"] = d.background("run_code", with{"code": "print x"})
		d.tool("cancel_job", with{"job_id": ids["cancelled"]})
		time.Sleep(10 * time.Second)
	})
	synctest.Test(t, func(t *testing.T) {
		disk, records, outputs := blobs(t)
		defer disk.Close()
		d := newDesk(t, setup{records: records, outputs: outputs})
		defer d.close()
		for want, id := range ids {
			equal(t, want, d.status(id).Status, want)
		}
		s := d.status(ids["failed"])
		equal(t, "cells", statuses(s.Cells), []string{"ok", "error", "skipped"})
		equal(t, "output", s.Cells[0].Stdout, "a\n")
		s = d.status(ids["done"])
		tail := as[page](t, d.call("read_output", with{"output_ref": s.Cells[0].OutputRef, "tail": 1}))
		equal(t, "what was cut", []any{tail.Total, tail.Text}, []any{len(want), "line 04999 é\n"})
		if got := as[struct{ Note string }](t, d.call("cancel_job", with{"job_id": ids["done"]})); !strings.Contains(got.Note, "ended before") {
			t.Errorf("cancel: %+v", got)
		}
		list := as[jobsAnswer](t, d.call("list_jobs", with{})).Jobs
		equal(t, "oldest", list[len(list)-1].JobID, ids["failed"])
	})
}

func TestDamagedRecordIsPassedOver(t *testing.T) { // L12
	records := memory(t, "jobs", jobs.RecordLimits)
	for key, raw := range map[string]string{"job-1": "{", "job-2": `{"id":"job-other","status":"done"}`, "job-3": `{"id":"job-3","kind":"run_code","status":"done"}`} {
		if err := records.Put(key, []byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, setup{records: records})
		defer d.close()
		for _, id := range []string{"job-1", "job-2", "job-other"} {
			if r := d.call("job_status", with{"job_id": id}); r.err == nil {
				t.Errorf("%s: %s", id, r.text)
			}
		}
	})
}
