package notebook_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"colab-mcp/notebook"
	"colab-mcp/notebook/kerneltest"
)

func call[T any](t *testing.T, k *kerneltest.Kernel, fn string, args any) T {
	t.Helper()
	var got T
	if err := notebook.Kernel.Do(t.Context(), runner(k), "", fn, args, &got); err != nil {
		t.Fatalf("%s: %v", fn, err)
	}
	return got
}

func TestRuntimeIsKnownAgain(t *testing.T) { // issue: a fresh runtime or restart is noticed
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		first := call[notebook.Runtime](t, k, "runtime", nil)
		if first.ID == "" || first.PID == 0 || first.Free <= 0 || !strings.HasPrefix(first.Python, "3.") || first.Cwd == "" || first.Platform == "" {
			t.Errorf("incomplete: %+v", first)
		}
		if again := call[notebook.Runtime](t, k, "runtime", nil); again.ID != first.ID {
			t.Errorf("the id changed from %s to %s", first.ID, again.ID)
		}
		if first.IPython == "" {
			return // the plain driver restarts in the same process
		}
		k.Restart()
		if after := call[notebook.Runtime](t, k, "runtime", nil); after.ID == first.ID || after.Machine != first.Machine {
			t.Errorf("after a restart id %s (was %s), machine %s (was %s)", after.ID, first.ID, after.Machine, first.Machine)
		}
		k.Run("import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')")
		if lost := call[notebook.Runtime](t, k, "runtime", nil); lost.Cwd != "" {
			t.Errorf("cwd of a deleted directory: %q", lost.Cwd)
		}
	})
}

func TestDeadlineNeedsIPython(t *testing.T) {
	k := kerneltest.Plain(t, "")
	if got := call[notebook.Armed](t, k, "arm", notebook.Deadline{Token: "a", DeadlineS: 1}); got.Armed || !strings.Contains(got.Why, "IPython") {
		t.Errorf("%+v", got)
	}
	if got := call[notebook.Fired](t, k, "fired", notebook.Token{Token: "a"}); got.Known {
		t.Errorf("%+v", got)
	}
}

// Cells that would run for minutes. After each the kernel must be as before.
func TestDeadlineStopsCells(t *testing.T) { // X5 and the deadlines of jobs
	k := kerneltest.IPython(t)
	k.Run("import asyncio, os, signal, subprocess, sys, threading, time")
	for name, c := range map[string]struct{ code, ename, stdout string }{
		"sleep":             {"print('so far'); time.sleep(30)", "KeyboardInterrupt", "so far"},
		"loop":              {"while True: pass", "KeyboardInterrupt", ""},
		"event":             {"threading.Event().wait()", "KeyboardInterrupt", ""},
		"pipe":              {"r, w = os.pipe(); os.read(r, 1)", "KeyboardInterrupt", ""},
		"await":             {"await asyncio.sleep(30)", "CancelledError", ""},
		"!command":          {"!sleep 30", "", ""},
		"%%bash":            {"%%bash\necho begun; sleep 30", "", "begun"},
		"stubborn child":    {"subprocess.run([sys.executable, '-c', 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)'])", "KeyboardInterrupt", ""},
		"finally":           {"try:\n    time.sleep(30)\nfinally:\n    print('saved')", "KeyboardInterrupt", "saved"},
		"caught":            {"try:\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print('stopping')", "", "stopping"},
		"caught in a loop":  {"n = 0\nwhile n < 2:\n    try:\n        time.sleep(30)\n    except KeyboardInterrupt:\n        n += 1\nprint(n)", "", "2"},
		"handler of theirs": {"def h(*_): raise RuntimeError('mine')\nsignal.signal(signal.SIGINT, h)\ntime.sleep(30)", "RuntimeError", ""},
		"handler ignored":   {"signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(0.01)", "KeyboardInterrupt", ""},
		"handler default":   {"signal.signal(signal.SIGINT, signal.SIG_DFL)\nwhile True: time.sleep(0.01)", "KeyboardInterrupt", ""},
	} {
		t.Run(name, func(t *testing.T) {
			armed := call[notebook.Armed](t, k, "arm", notebook.Deadline{Token: name, DeadlineS: 0.3, Source: notebook.SourceSum(c.code), AgainS: 1})
			if !armed.Armed {
				t.Fatalf("%+v", armed)
			}
			var stdout, ename string
			for _, out := range k.Run(c.code) {
				if out.Type == notebook.ErrorOutput {
					ename = out.EName
				} else {
					stdout += out.Text
				}
			}
			got := call[notebook.Fired](t, k, "fired", notebook.Token{Token: name})
			if !got.Known || !got.Started || !got.Fired || got.FiredS < 0.3 || got.EndedS < got.FiredS {
				t.Errorf("%+v", got)
			}
			if ename != c.ename || !strings.Contains(stdout, c.stdout) {
				t.Errorf("ended with %q %q, want %q %q", ename, stdout, c.ename, c.stdout)
			}
			nothingArmed(t, k)
			if out := print(t, k, "'next', 1 + 1"); out != "next 2" {
				t.Errorf("the next cell printed %q", out)
			}
		})
	}
}

func nothingArmed(t *testing.T, k *kerneltest.Kernel) {
	t.Helper()
	const hooks = "[f for e in ('pre_run_cell', 'post_run_cell') for f in get_ipython().events.callbacks[e] if '_Deadline' in f.__qualname__]"
	if got := print(t, k, hooks); got != "[]" {
		t.Errorf("hooks left: %s", got)
	}
}

func TestDeadlineOfACellThatEndsInTime(t *testing.T) {
	k := kerneltest.IPython(t)
	k.Run("import time")
	for _, code := range []string{"1 + 1", "1 / 0", "await __import__('asyncio').sleep(0)"} {
		call[notebook.Armed](t, k, "arm", notebook.Deadline{Token: "a", DeadlineS: 60})
		k.Run(code)
		nothingArmed(t, k)
		if got := print(t, k, "[t for t in __import__('threading').enumerate() if t.name == 'colab-mcp deadline' and not t.join(30) and t.is_alive()]"); got != "[]" {
			t.Errorf("after %q: threads left: %s", code, got)
		}
		if got := call[notebook.Fired](t, k, "fired", notebook.Token{Token: "a"}); !got.Started || got.Fired || got.EndedS < 0 {
			t.Errorf("%q: %+v", code, got)
		}
		if got := call[notebook.Fired](t, k, "fired", notebook.Token{Token: "a"}); got.Known {
			t.Errorf("asked twice: %+v", got)
		}
	}
}

func TestDeadlineIsOfItsCellOnly(t *testing.T) {
	k := kerneltest.IPython(t)
	k.Run("import time")
	ours := "time.sleep(20)"
	arm := func(d notebook.Deadline) { t.Helper(); call[notebook.Armed](t, k, "arm", d) }

	arm(notebook.Deadline{Token: "a", DeadlineS: 0.1, Source: notebook.SourceSum(ours)})
	if out := k.Run("time.sleep(0.5); print('the user ran this in between')"); len(out) != 1 || out[0].Type != notebook.Stream {
		t.Errorf("another cell was hit: %+v", out)
	}
	if out := k.Run(ours + "\n"); len(out) != 1 || out[0].EName != "KeyboardInterrupt" {
		t.Errorf("ours was not: %+v", out)
	}

	arm(notebook.Deadline{Token: "b", DeadlineS: 0.1, WithinS: 0.05})
	k.Run("pass; time.sleep(0.2)") // may start in time or not
	k.Run("time.sleep(0.2)")
	nothingArmed(t, k)

	arm(notebook.Deadline{Token: "c", DeadlineS: 0.1})
	arm(notebook.Deadline{Token: "d", DeadlineS: 60}) // replaces
	if out := k.Run("time.sleep(0.3)"); len(out) != 0 {
		t.Errorf("the replaced deadline fired: %+v", out)
	}
	arm(notebook.Deadline{Token: "e", DeadlineS: 0.1})
	call[notebook.Fired](t, k, "fired", notebook.Token{Token: "e"}) // taken back
	if out := k.Run("time.sleep(0.3)"); len(out) != 0 {
		t.Errorf("the deadline that was taken back fired: %+v", out)
	}
}

func TestDeadlineKillsOnlyTheCellsChildren(t *testing.T) {
	k := kerneltest.IPython(t)
	const child = "[sys.executable, '-c', 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(1, flush=True); time.sleep(60)']"
	k.Run("import subprocess, sys, time\nspawn = lambda: subprocess.Popen(" + child + ", stdout=subprocess.PIPE)\nbefore = spawn(); before.stdout.read(1)")
	call[notebook.Armed](t, k, "arm", notebook.Deadline{Token: "a", DeadlineS: 0.5})
	k.Run("during = spawn(); during.stdout.read(1); time.sleep(30)")
	// The child ignores SIGINT, its cell is over; SIGKILL comes 5 s after.
	if got := print(t, k, "during.wait(30), before.poll()"); got != "-9 None" {
		t.Errorf("exit statuses %s, want -9 None", got)
	}
	k.Run("before.kill(); before.wait()")
}

func ExampleModule_Do() {
	run := func(_ context.Context, code string) ([]notebook.Output, error) {
		fmt.Println(strings.HasPrefix(code, "#@title colab-mcp · which runtime\n"))
		return nil, nil // a cell that printed nothing
	}
	var runtime notebook.Runtime
	fmt.Println(notebook.Kernel.Do(context.Background(), run, "colab-mcp · which runtime", "runtime", nil, &runtime))
	// Output:
	// true
	// the runtime gave no reply: 0 outputs, none of them ours
}
