package jobs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

func TestCodeLeavesNoCell(t *testing.T) { // X4
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print mine", "")
		for code, status := range map[string]string{"print hi": "ok", "error E x": "error", "": "ok", "print a\nresult 3": "ok"} {
			run := d.start("run_code", with{"code": "sleep 5\n" + code})
			time.Sleep(2 * time.Second)
			all := d.cells()
			if last := all[len(all)-1]; len(all) != 3 || last.Source != "sleep 5\n"+code {
				t.Errorf("%q: while it runs there are %d cells, the last is %q", code, len(all), last.Source)
			}
			got := as[codeAnswer](t, run.wait())
			equal(t, "status of "+code, got.Status, status)
			equal(t, "left behind", len(d.temporary(ids...)), 0)
			if got.Index != nil || got.ID != "" {
				t.Errorf("a temporary cell is told: %+v", got)
			}
		}
	})
}

func TestCodeShowsWhatItGave(t *testing.T) { // C7
	virtual(t, setup{}, func(d *desk) {
		r := d.call("run_code", with{"code": "print out\nstderr err\nresult 42\nimage png"})
		got := as[codeAnswer](t, r)
		equal(t, "stdout", got.Stdout, "out\n")
		equal(t, "stderr", got.Stderr, "err\n")
		if !strings.Contains(got.Result, "42") || got.Images != 1 || *got.ExecutionCount != 1 {
			t.Errorf("got %s", r.text)
		}
		if len(r.result.Content) != 2 || r.result.StructuredContent != nil {
			t.Fatalf("%d blocks, structured %v", len(r.result.Content), r.result.StructuredContent)
		}
		if img, ok := r.result.Content[1].(*mcp.ImageContent); !ok || img.MIMEType != "image/png" {
			t.Errorf("second block: %+v", r.result.Content[1])
		}
		if n := strings.Count(d.wire.String(), tabtest.PNG[:40]); n != 1 {
			t.Errorf("the picture was sent %d times", n)
		}
	})
}

func TestCodeIsSentAsItIs(t *testing.T) { // C5, C9
	virtual(t, setup{}, func(d *desk) {
		for _, code := range []string{"[1, 2]", `{"a": 1}`, "null", "9007199254740993 # <&>", "a\r\nb\n\n", "'é\u2028'"} {
			as[codeAnswer](t, d.call("run_code", with{"code": code}))
			ran := d.ran()
			equal(t, "sent", ran[len(ran)-1], code)
		}
	})
}

func TestKeptCellStaysLastWithItsOutput(t *testing.T) { // run_code keep_cell
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a")
		as[codeAnswer](t, d.call("run_code", with{"code": "print kept", "keep_cell": true}))
		more := d.temporary(ids...)
		if len(more) != 1 || more[0].Index != 1 || more[0].Source != "print kept" || len(more[0].Outputs) != 1 {
			t.Fatalf("the notebook has %+v", more)
		}
		outline := as[struct{ Total int }](t, d.call("get_notebook_outline", with{}))
		equal(t, "outline", outline.Total, 2)
		equal(t, "temporary cells on disk", len(d.left()), 0)
		got := as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": []string{more[0].ID}}))
		equal(t, "it is a cell like any", statuses(got.Cells), []string{"ok"})
	})
}

func TestLanguageReachesTheTab(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		as[codeAnswer](t, d.call("run_code", with{"code": "print x", "language": "r"}))
		calls := d.far().Calls("add_code_cell")
		if last := string(calls[len(calls)-1].Args); !strings.Contains(last, `"language":"r"`) {
			t.Errorf("sent %s", last)
		}
		for _, args := range []with{{"code": "x", "language": "perl"}, {"code": "x", "language": "r", "timeout_s": 3}, {}, {"code": "x", "timeout_s": 1e9}} {
			var wrong *bridge.ArgumentError
			if r := d.call("run_code", args); !errors.As(r.err, &wrong) {
				t.Errorf("%v: %v", args, r.err)
			}
		}
	})
}

func TestNewIdMayComeOnlyAsText(t *testing.T) { // C4
	virtual(t, setup{}, func(d *desk) {
		d.far().Set(func(k *tabtest.Knobs) {
			k.Answer = map[string]string{"add_code_cell": `{"content":[{"type":"text","text":"{}"}]}`}
		})
		if r := d.call("run_code", with{"code": "print x"}); r.err == nil || !r.result.IsError {
			t.Errorf("without an id: %s", r.text)
		}
		equal(t, "ran", len(d.ran()), 0)
	})
	virtual(t, setup{knobs: tabtest.Knobs{Options: localtab.Options{TextOnly: true}}}, func(d *desk) {
		equal(t, "as text", as[codeAnswer](t, d.call("run_code", with{"code": "print x"})).Stdout, "x\n")
	})
}

func TestFailedDeleteIsAWordBesideTheOutput(t *testing.T) { // X4
	virtual(t, setup{noReopen: true}, func(d *desk) {
		ids := d.fill("print a")
		d.far().Set(func(k *tabtest.Knobs) { k.Fail = map[string]string{"delete_cell": "not now"} })
		got := as[codeAnswer](t, d.call("run_code", with{"code": "print x"}))
		if got.Status != "ok" || got.Stdout != "x\n" || !strings.Contains(got.Note, "temporary cell") {
			t.Errorf("got %+v", got)
		}
		// It is still ours: no outline, run or export shows it, and the next connection sweeps it.
		equal(t, "outline", as[struct{ Total int }](t, d.call("get_notebook_outline", with{})).Total, 1)
		job := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "runs", len(job.Cells), 1)
		d.drop()
		d.open()
		equal(t, "swept", len(d.temporary(ids...)), 0)
	})
}

func TestOnlyOurCellIsDeleted(t *testing.T) { // X4
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a")
		run := d.start("run_code", with{"code": "sleep 10"})
		time.Sleep(2 * time.Second)
		ours := d.temporary(ids...)[0].ID
		d.tool("update_cell", with{"cellId": ours, "content": "the user's words"})
		d.tool("move_cell", with{"cellId": ours, "cellIndex": 0})
		as[codeAnswer](t, run.wait())
		left := d.temporary(ids...)
		if len(left) != 1 || left[0].Source != "the user's words" {
			t.Errorf("left: %+v", left)
		}
	})
}

func TestTemporaryCellIsFoundWhereItWasMoved(t *testing.T) { // X4
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a", "print b")
		run := d.start("run_code", with{"code": "sleep 10"})
		time.Sleep(2 * time.Second)
		d.tool("move_cell", with{"cellId": d.temporary(ids...)[0].ID, "cellIndex": 0})
		equal(t, "status", as[codeAnswer](t, run.wait()).Status, "ok")
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

func TestNeverTwoRunsInFlight(t *testing.T) { // X5
	virtual(t, setup{soft: 10 * time.Second}, func(d *desk) {
		d.fill("sleep 30\nprint cell")
		var runs []*pending
		for range 3 {
			runs = append(runs, d.start("run_code", with{"code": "sleep 12"}), d.start("run_cells", with{"start": 0}))
		}
		for _, run := range runs {
			run.wait() // handed back
		}
		got := as[codeAnswer](t, d.call("run_code", with{"code": "print last"}))
		equal(t, "handed back while it waits", got.Status, "running")
		s := d.ended(got.JobID)
		equal(t, "last", s.Cells[0].Stdout, "last\n")
		equal(t, "runs in flight", d.far().MaxRunsInFlight(), 1)
		ran := d.ran()
		equal(t, "the last in line", slices.Index(ran, "print last"), len(ran)-1)
		equal(t, "ran", len(ran), 7)
	})
}
