package jobs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

func TestDeadlineEndsTheCell(t *testing.T) { // issue 3, 6
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print so far\nsleep 1h", "print b")
		armed := withDeadlines(d.far().Kernel)
		began := time.Now()
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0, "timeout_s": 20}))
		equal(t, "took", time.Since(began), 20*time.Second)
		equal(t, "statuses", statuses(got.Cells), []string{"error", "skipped"})
		c := got.Cells[0]
		if c.Error == nil || c.Error.Code != "timeout" || c.Error.Name != "KeyboardInterrupt" || c.Stdout != "so far\n" {
			t.Errorf("cell: %+v, %+v", c, c.Error)
		}
		equal(t, "job", d.status(d.newest()).Status, "failed")

		code := as[codeAnswer](t, d.call("run_code", with{"code": "print x\nsleep 1h", "timeout_s": 2.5}))
		if code.Error == nil || code.Error.Code != "timeout" || code.Stdout != "x\n" || !strings.Contains(code.Error.Value, "2.5") {
			t.Errorf("code: %+v", code)
		}
		code = as[codeAnswer](t, d.call("run_code", with{"code": "print quick", "timeout_s": 10, "keep_cell": true}))
		equal(t, "in time", []any{code.Status, code.Stdout}, []any{"ok", "quick\n"})
		kept := d.temporary(ids...)
		if len(kept) != 1 || kept[0].Source != "print quick" || len(kept[0].Outputs) != 1 || kept[0].Outputs[0].Text != "quick\n" {
			t.Errorf("the notebook has %+v", kept)
		}
		equal(t, "left armed", armed.left(), false)
	})
}

func TestDeadlineOfEachCell(t *testing.T) { // issue 3, 6: per cell
	virtual(t, setup{soft: time.Hour}, func(d *desk) {
		ids := d.fill("sleep 8", "sleep 8", "sleep 80", "sleep 8")
		withDeadlines(d.far().Kernel)
		got := as[cellsAnswer](t, d.call("run_notebook", with{"timeout_s": 10, "stop_on_error": false, "background": false}))
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "ok", "error", "ok"})
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

func TestCancelTellsTheDeadline(t *testing.T) { // issue 3, 6
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 1h", "print b")
		withDeadlines(d.far().Kernel)
		id := d.background("run_cells", with{"start": 0, "timeout_s": 60})
		time.Sleep(20 * time.Second)
		if note := d.status(id).Current.Note; !strings.Contains(note, "40 s") {
			t.Errorf("status: %q", note)
		}
		got := as[struct{ Note string }](t, d.call("cancel_job", with{"job_id": id}))
		if !strings.Contains(got.Note, "40 s at the latest") {
			t.Errorf("cancel: %q", got.Note)
		}
		s := d.ended(id)
		equal(t, "cells", statuses(s.Cells), []string{"error", "cancelled"})
		equal(t, "elapsed", s.Elapsed, 60.0)
	})
}

func TestDeadlineThatDoesNotHoldIsSaid(t *testing.T) { // issue 3, 6: the words say so
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 100")
		withDeadlines(d.far().Kernel).late = true
		id := d.background("run_cells", with{"start": 0, "timeout_s": 60})
		time.Sleep(80 * time.Second)
		if note := d.status(id).Current.Note; !strings.Contains(note, "due 20 s ago") {
			t.Errorf("status: %q", note)
		}
		if got := as[struct{ Note string }](t, d.call("cancel_job", with{"job_id": id})); !strings.Contains(got.Note, "was due") {
			t.Errorf("cancel: %q", got.Note)
		}
		c := d.ended(id).Cells[0]
		if c.Status != "ok" || !strings.Contains(c.Note, "timeout_s was not kept") {
			t.Errorf("at the end: %+v", c)
		}
	})
}

func TestBlankCellNeedsNoDeadline(t *testing.T) { // issue 3, 6
	virtual(t, setup{}, func(d *desk) {
		d.fill(" \n")
		kernel := withDeadlines(d.far().Kernel)
		kernel.late = true
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0, "timeout_s": 60}))
		equal(t, "cell", []string{got.Cells[0].Status, got.Cells[0].Note}, []string{"ok", ""})
		equal(t, "calls", kernel.calls, nil)
	})
}

func TestCancelWhileTheDeadlineIsSet(t *testing.T) { // C13: what was not begun is not run
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print never")
		armed := withDeadlines(d.far().Kernel)
		d.far().Set(func(k *tabtest.Knobs) { k.Delay = map[string]time.Duration{"run_code_cell": 5 * time.Second} })
		id := d.background("run_cells", with{"start": 0, "timeout_s": 60})
		time.Sleep(time.Second)
		equal(t, "it is being set", d.far().RunsInFlight(), 1)
		got := as[struct{ Status string }](t, d.call("cancel_job", with{"job_id": id}))
		equal(t, "answer", got.Status, "cancelled")
		equal(t, "job", d.ended(id).Status, "cancelled")
		equal(t, "ran", len(d.ran()), 0)
		equal(t, "left armed", armed.left(), false)
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

func TestDeadlineOverARuntimeThatIsNotThere(t *testing.T) { // design 6
	virtual(t, setup{soft: 20 * time.Second, knobs: tabtest.Knobs{Options: localtab.Options{DialogOpen: true}}}, func(d *desk) {
		ids := d.fill("print a")
		for tool, args := range map[string]with{"run_cells": {"start": 0, "timeout_s": 5}, "run_code": {"code": "print x", "timeout_s": 5}} {
			r := d.call(tool, args)
			if r.err != nil || !strings.Contains(r.text, `"not_run"`) {
				t.Errorf("%s: %v %s", tool, r.err, r.text)
			}
		}
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

func TestRuntimeWithoutDeadlinesRefuses(t *testing.T) { // a deadline that does not hold was not asked for
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a")
		if r := d.call("run_cells", with{"start": 0, "timeout_s": 5}); r.err == nil {
			t.Errorf("got %s", r.text)
		}
		equal(t, "ran", len(d.ran()), 0)
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

// real runs f at a desk with a real ipykernel. A machine without one skips the
// test, or fails it where COLAB_MCP_REQUIRE_REAL is set.
func real(t *testing.T, f func(d *desk)) {
	t.Helper()
	python := ""
	for _, name := range []string{"/usr/bin/python3", "python3"} { // Debian's packages are for its own
		if python == "" && exec.Command(name, "-c", "import ipykernel, jupyter_client").Run() == nil {
			python = name
		}
	}
	if python == "" {
		const missing = "no python3 has ipykernel and jupyter_client (Debian: apt-get install python3-ipykernel python3-jupyter-client)"
		if os.Getenv("COLAB_MCP_REQUIRE_REAL") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	tab, err := localtab.New(localtab.Options{Python: python})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	var serving sync.WaitGroup
	defer serving.Wait()
	d := newDesk(t, setup{serve: func(d *desk, link string) {
		conn, err := tab.Dial(context.Background(), link)
		if err != nil {
			t.Errorf("dial: %v", err)
			return
		}
		serving.Go(func() { tab.Serve(context.Background(), conn) })
	}})
	defer d.close()
	d.open()
	d.fill()
	f(d)
}

func TestRealDeadlines(t *testing.T) { // issue 3, 6
	real(t, func(d *desk) {
		before := as[codeAnswer](t, d.call("run_code", with{"code": "import os, subprocess, sys, threading, time\nsorted(globals())"}))
		for _, c := range []struct{ name, code, ename, stdout string }{
			{"loop", "print('so far')\nwhile True: pass", "KeyboardInterrupt", "so far\n"},
			{"sleep", "print('so far'); time.sleep(60)", "KeyboardInterrupt", "so far\n"},
			{"!sleep", "!sleep 60", "Timeout", ""},
			{"%%bash", "%%bash\necho begun\nsleep 60", "", "begun\n"}, // with an error of its own or none, by IPython's version
			{"blocking read", "r, w = os.pipe()\nos.read(r, 1)", "KeyboardInterrupt", ""},
			{"stubborn child", "subprocess.run([sys.executable, '-c', 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)'])", "KeyboardInterrupt", ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				got := as[codeAnswer](t, d.call("run_code", with{"code": c.code, "timeout_s": 0.7}))
				if got.Status != "error" || got.Error == nil || got.Error.Code != "timeout" || c.ename != "" && got.Error.Name != c.ename || !strings.HasPrefix(got.Stdout, c.stdout) || got.DurationS >= 30 {
					t.Errorf("got %q, %+v", got.Stdout, got.Error)
				}
			})
		}
		after := as[codeAnswer](t, d.call("run_code", with{"code": "sorted(globals())"}))
		for _, name := range []string{"colab", "module", "deadline"} {
			if strings.Contains(after.Result, name) && !strings.Contains(before.Result, name) {
				t.Errorf("a name of ours: %s", after.Result)
			}
		}
		threads := as[codeAnswer](t, d.call("run_code", with{"code": "any(t.join(30) or t.is_alive() for t in threading.enumerate() if 'colab' in t.name)"}))
		equal(t, "threads that stay", threads.Result, "False")
		// In time: nothing stays armed for what comes after.
		equal(t, "in time", as[codeAnswer](t, d.call("run_code", with{"code": "1", "timeout_s": 1})).Result, "1")
		equal(t, "not interrupted", as[codeAnswer](t, d.call("run_code", with{"code": "time.sleep(1.5); 2"})).Result, "2")
		equal(t, "left behind", len(d.temporary()), 0)
	})
}

func TestRealCells(t *testing.T) { // issue 2 and 3, on ipykernel
	real(t, func(d *desk) {
		ids := d.fill("x = 40", "", "# nothing", "print(x + 2); x + 2", "1/0", "print('never')")
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "ok", "ok", "ok", "error", "skipped"})
		equal(t, "output", []string{got.Cells[3].Stdout, got.Cells[3].Result}, []string{"42\n", "42"})
		if e := got.Cells[4].Error; e == nil || e.Name != "ZeroDivisionError" || strings.Contains(e.Traceback, "\x1b") {
			t.Errorf("error: %+v", e)
		}
		got = as[cellsAnswer](t, d.call("run_notebook", with{"timeout_s": 20, "background": false, "stop_on_error": false}))
		equal(t, "with a deadline", statuses(got.Cells), []string{"ok", "ok", "ok", "ok", "error", "ok"})
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}

func TestRealPartialOutput(t *testing.T) { // issue 3, 4
	real(t, func(d *desk) {
		d.fill("import time\nfor i in range(200):\n    print('step', i, flush=True)\n    time.sleep(0.02)")
		run := d.start("run_cells", with{"start": 0}, true)
		r := run.wait()
		said := run.progress()
		if len(said) == 0 || !strings.Contains(said[len(said)-1].Message, "step ") {
			t.Errorf("progress %+v", said)
		}
		if got := as[cellsAnswer](t, r); !strings.HasSuffix(got.Cells[0].Stdout, "step 199\n") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestRealKernelThatDies(t *testing.T) { // design 6
	real(t, func(d *desk) {
		ids := d.fill("x = 1", "import os; os._exit(1)", "x")
		got := as[cellsAnswer](t, d.call("run_cells", with{"start": 0}))
		equal(t, "statuses", statuses(got.Cells), []string{"ok", "error", "skipped"})
		if e := got.Cells[1].Error; e == nil || e.Code != "kernel_died" || !got.Cells[1].Restarted {
			t.Errorf("got %+v", got.Cells[1])
		}
		next := as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": ids[2:]}))
		if e := next.Cells[0].Error; e == nil || e.Name != "NameError" {
			t.Errorf("the variables are gone: %+v", next.Cells[0])
		}
		// A restart under which the first cell's count is what it was before.
		d.tool("run_code", with{"code": "y = 2"})
		equal(t, "deadline module in a fresh kernel", as[codeAnswer](t, d.call("run_code", with{"code": fmt.Sprint(7), "timeout_s": 10})).Result, "7")
	})
}

func TestRealSavedCountRunsOnce(t *testing.T) { // design 6: the same count before and after
	real(t, func(d *desk) {
		ids := d.fill("open('ran', 'a').write('x') and None", "import os; os._exit(1)")
		dir := t.TempDir()
		setUp := fmt.Sprintf("import os; os.chdir(%q)", dir)
		d.tool("run_code", with{"code": setUp})                                   // 1
		d.tool("run_cells", with{"cell_ids": ids[:1]})                            // 2
		d.tool("run_cells", with{"cell_ids": ids[1:]})                            // a fresh kernel
		d.tool("run_code", with{"code": setUp})                                   // 1
		got := as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": ids[:1]})) // 2 again
		equal(t, "status", statuses(got.Cells), []string{"ok"})
		if raw, err := os.ReadFile(dir + "/ran"); string(raw) != "xx" {
			t.Errorf("it ran %d times in all, not twice (%v)", len(raw), err)
		}
		equal(t, "left behind", len(d.temporary(ids...)), 0)
	})
}
