package jobs_test

import (
	"fmt"
	"testing"
	"time"
)

func TestForegroundGoesBetweenTwoCells(t *testing.T) { // X3
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("sleep 10\nprint 0", "sleep 10\nprint 1", "sleep 10\nprint 2", "sleep 10\nprint 3")
		id := d.background("run_notebook", with{})
		time.Sleep(time.Second)
		began := time.Now()
		code := d.start("run_code", with{"code": "print between"})
		equal(t, "stdout", as[codeAnswer](t, code.wait()).Stdout, "between\n")
		equal(t, "it waited for one cell", time.Since(began), 9*time.Second)
		time.Sleep(time.Second)
		got := as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": ids[3:]}))
		equal(t, "status", got.Status, "ok")
		equal(t, "job", d.ended(id).Status, "done")
		equal(t, "order", d.ran(), []string{"sleep 10\nprint 0", "print between", "sleep 10\nprint 1", "sleep 10\nprint 3", "sleep 10\nprint 2", "sleep 10\nprint 3"})
	})
}

func TestTwoJobsTakeTurns(t *testing.T) { // X3
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("sleep 1\nprint a0", "sleep 1\nprint a1", "sleep 1\nprint b0", "sleep 1\nprint b1")
		a := d.background("run_cells", with{"cell_ids": ids[:2]})
		time.Sleep(time.Millisecond)
		b := d.background("run_cells", with{"cell_ids": ids[2:]})
		equal(t, "a", d.ended(a).Status, "done")
		equal(t, "b", d.ended(b).Status, "done")
		ran := d.ran()
		equal(t, "order", ran, []string{"sleep 1\nprint a0", "sleep 1\nprint b0", "sleep 1\nprint a1", "sleep 1\nprint b1"})
		equal(t, "runs in flight", d.far().MaxRunsInFlight(), 1)
	})
}

func TestWhoWaitsHearsWhoRuns(t *testing.T) { // X3
	virtual(t, setup{}, func(d *desk) {
		first := d.background("run_code", with{"code": "sleep 60"})
		time.Sleep(time.Second)
		second := d.background("run_code", with{"code": "print b"})
		time.Sleep(time.Second)
		op, since, _ := d.jobs.Busy()
		equal(t, "busy with", op, "run_code ("+first+")")
		equal(t, "for", time.Since(since), 2*time.Second)
		type answer struct{ Note string }
		equal(t, "note", as[answer](t, d.call("job_status", with{"job_id": second})).Note, "not begun: it waits for its turn behind run_code ("+first+")")
		d.ended(second)
		equal(t, "note at the end", as[answer](t, d.call("job_status", with{"job_id": second})).Note, "")
	})
}

func TestReadsAndEditsNeverWait(t *testing.T) { // X3
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("sleep 1h", "print b")
		id := d.background("run_notebook", with{})
		time.Sleep(time.Second)
		began := time.Now()
		for _, c := range []struct {
			tool string
			args with
		}{{"get_cells", with{}}, {"get_notebook_outline", with{}}, {"update_cell", with{"cellId": ids[1], "content": "print new"}},
			{"add_text_cell", with{"content": "x"}}, {"move_cell", with{"cellId": ids[1], "cellIndex": 2}}, {"job_status", with{"job_id": id}},
			{"list_jobs", with{}}, {"colab_connection_status", with{}}, {"call_colab_tool", with{"name": "get_cells"}}} {
			d.tool(c.tool, c.args)
		}
		equal(t, "they took", time.Since(began), 0)
		time.Sleep(time.Hour)
		s := d.ended(id)
		equal(t, "the edit counts", s.Cells[1].Stdout, "new\n")
		equal(t, "the cell is where it was moved", *s.Cells[1].Index, 2)
	})
}

func TestOutlineShowsNoTemporaryCell(t *testing.T) { // issue 2, 5
	virtual(t, setup{}, func(d *desk) {
		d.fill("\n  import x\nprint a", "error E x", "")
		d.tool("add_text_cell", with{"content": "# Title\ntext"})
		d.tool("run_cells", with{"start": 0, "stop_on_error": false})
		run := d.start("run_code", with{"code": "sleep 10"})
		time.Sleep(time.Second)
		type line struct {
			Index     int
			Type      string
			FirstLine string `json:"first_line"`
			Lines     int
			Count     *int `json:"execution_count"`
			HasOutput bool `json:"has_output"`
			HasError  bool `json:"has_error"`
		}
		type outline struct {
			Total int
			Cells []line
		}
		got := as[outline](t, d.call("get_notebook_outline", with{}))
		one, two := 1, 2
		want := []line{{0, "code", "import x", 3, &one, true, false}, {1, "code", "error E x", 1, &two, true, true},
			{2, "code", "", 0, got.Cells[2].Count, false, false}, {3, "markdown", "# Title", 2, nil, false, false}}
		equal(t, "total", got.Total, 4)
		for i, w := range want {
			g := got.Cells[i]
			if (g.Count == nil) != (w.Count == nil) || g.Count != nil && *g.Count != *w.Count {
				t.Errorf("cell %d: count %v", i, g.Count)
			}
			g.Count, w.Count = nil, nil
			equal(t, fmt.Sprint("cell ", i), g, w)
		}
		part := as[outline](t, d.call("get_notebook_outline", with{"start": 1, "end": 2}))
		equal(t, "a part", []int{part.Total, len(part.Cells), part.Cells[0].Index}, []int{4, 2, 1})
		past := as[outline](t, d.call("get_notebook_outline", with{"start": 9}))
		if past.Cells == nil || len(past.Cells) != 0 {
			t.Errorf("past the end: %+v", past)
		}
		run.wait()
	})
}
