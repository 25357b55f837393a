package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

// One suite, and every far end there is: what holds for the fake must hold for
// the real thing, or the fake has drifted. The scripted kernel knows the few
// programs below by heart; the others run them. A live Colab tab is asked with
// COLAB_LIVE=1 and a person to press Connect.

// farEnd connects an agent to a fresh notebook, however it does that.
type farEnd struct {
	name  string
	start func(t *testing.T) *agent
}

var farEnds = []farEnd{
	{"scripted", startScripted},
	{"ipykernel", func(t *testing.T) *agent {
		return startLocal(t, "colab-mcp tab --python "+kernelPython(t))
	}},
	{"plain Python", func(t *testing.T) *agent {
		if _, err := localtab.FindPython(""); err != nil {
			requireReal(t, "no python3")
		}
		return startLocal(t, "colab-mcp tab --plain")
	}},
	{"Chromium", func(t *testing.T) *agent {
		s := startScene(t)
		s.connect(aNotebook)
		return s.agent
	}},
	{"live Colab", startLive},
}

func TestSuite(t *testing.T) {
	for _, far := range farEnds {
		t.Run(far.name, func(t *testing.T) {
			a := far.start(t)
			for _, b := range behaviours {
				t.Run(b.name, func(t *testing.T) {
					a.t = t
					b.check(t, a)
				})
				a.t = t
			}
		})
	}
}

func startLocal(t *testing.T, browser string) *agent {
	a := startAgent(t, "--browser", browser)
	open(t, a)
	return a
}

func open(t *testing.T, a *agent) {
	var got opened
	a.call(opener, nil).into(&got)
	if !got.Result {
		t.Fatalf("not connected: %q", got.Causes)
	}
}

// startScripted has a far tab whose kernel plays the suite's programs.
func startScripted(t *testing.T) *agent {
	browser, links := handedOver(t)
	a := startAgent(t, "--browser", browser)
	opening := a.begin(opener, nil)
	var k tabtest.Kernel
	k.On("print('hello')", func(_ context.Context, _ string, s tabtest.Screen) { s.Write("hello\n"); s.Result("42") })
	k.On("1/0", func(_ context.Context, _ string, s tabtest.Screen) { s.Error("ZeroDivisionError", "division by zero") })
	k.On("_repr_png_", func(_ context.Context, _ string, s tabtest.Screen) {
		s.Display(map[string]any{"image/png": tabtest.PNG, "text/plain": "<P>"})
	})
	k.On("time.sleep", func(ctx context.Context, code string, s tabtest.Screen) {
		s.Write("first\n")
		gate := strings.Split(code, `"`)[1]
		for !exists(gate) && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		s.Write("second\n")
	})
	tabtest.Dial(t, nil, <-links, tabtest.Knobs{Options: localtab.Options{Kernel: &k}})
	var got opened
	opening.answer().into(&got)
	return a
}

func startLive(t *testing.T) *agent {
	if os.Getenv("COLAB_LIVE") != "1" {
		t.Skip("COLAB_LIVE=1 runs the suite against a live Colab tab; somebody must press Connect in it")
	}
	a := startAgent(t, "--ui-timeout", "180s", "--soft-limit", "180s")
	open(t, a)
	return a
}

// behaviours are what every tab does, in an order in which each leaves the
// notebook as the next may find it.
var behaviours = []struct {
	name  string
	check func(*testing.T, *agent)
}{
	{"a cell is added at the end and keeps its id", addsAtTheEnd},
	{"a cell runs, with output, value and count", runsACell},
	{"an exception is a result", raises},
	{"a plot is an image", plots},
	{"ad-hoc code leaves no cell", leavesNoCell},
	{"partial output is seen while a cell runs", showsPartialOutput},
	{"an edit and a read go beside a run", editsBesideARun},
	{"a file goes up and comes back", movesAFile},
	{"a moved cell is found by its id", movesACell},
	{"an unknown cell is refused in the tab's words", refusesAnUnknownCell},
	{"a deleted cell is gone", deletesACell},
}

// movesAFile needs a Python that a script cannot be.
func movesAFile(t *testing.T, a *agent) {
	if strings.Contains(t.Name(), "scripted") {
		t.Skip("the scripted kernel runs no Python")
	}
	dir := t.TempDir()
	up, back := filepath.Join(dir, "up.bin"), filepath.Join(dir, "back.bin")
	sent := randomBytes(3<<20 + 7)
	if err := os.WriteFile(up, sent, 0o600); err != nil {
		t.Fatal(err)
	}
	remote := filepath.Join(dir, "remote.bin")
	if strings.Contains(t.Name(), "live") {
		remote = "colab-mcp-suite.bin"
		defer func() { a.call("run_code", args{"code": "import os; os.remove('/content/colab-mcp-suite.bin')"}) }()
	}
	before := outlineOf(a)
	var got struct {
		Remote string `json:"remote_path"`
		Bytes  int
		SHA256 string
	}
	a.call("upload_file", args{"local_path": up, "remote_path": remote}).into(&got)
	want := sha256.Sum256(sent)
	if got.Bytes != len(sent) || got.SHA256 != hex.EncodeToString(want[:]) {
		t.Errorf("up: %+v", got)
	}
	a.call("download_file", args{"remote_path": got.Remote, "local_path": back}).into(&got)
	if b, err := os.ReadFile(back); err != nil || !bytes.Equal(b, sent) {
		t.Errorf("another file came back (%v): %+v", err, got)
	}
	if after := outlineOf(a); after.Total != before.Total {
		t.Errorf("%d cells before, %d after", before.Total, after.Total)
	}
}

type outline struct {
	Total int
	Cells []struct {
		Index int
		ID    string `json:"id"`
		Count *int   `json:"execution_count"`
	}
}

func outlineOf(a *agent) outline {
	var o outline
	a.call("get_notebook_outline", nil).into(&o)
	return o
}

// addCode adds a code cell and returns its id.
func addCode(a *agent, code string) string {
	var added struct {
		ID string `json:"newCellId"`
	}
	a.call("add_code_cell", args{"code": code}).into(&added)
	return added.ID
}

func addsAtTheEnd(t *testing.T, a *agent) {
	before := outlineOf(a)
	id := addCode(a, "print('hello')\n6 * 7")
	after := outlineOf(a)
	if after.Total != before.Total+1 || after.Cells[after.Total-1].ID != id {
		t.Errorf("before %+v, after %+v, added %q", before, after, id)
	}
}

type cell struct {
	Status, Stdout, Result string
	Count                  int `json:"execution_count"`
	Images                 int
	Error                  struct{ Name, Value string }
	JobID                  string `json:"job_id"`
}

func runsACell(t *testing.T, a *agent) {
	o := outlineOf(a)
	id := o.Cells[o.Total-1].ID
	var got struct {
		Status string
		Cells  []cell
	}
	a.call("run_cells", args{"cell_ids": []string{id}}).into(&got)
	if got.Status != "ok" || len(got.Cells) != 1 || got.Cells[0].Stdout != "hello\n" || got.Cells[0].Result != "42" || got.Cells[0].Count < 1 {
		t.Fatalf("%+v", got)
	}
	if o = outlineOf(a); o.Cells[o.Total-1].Count == nil || *o.Cells[o.Total-1].Count != got.Cells[0].Count {
		t.Errorf("the outline says %v, the run %d", o.Cells[o.Total-1].Count, got.Cells[0].Count)
	}
}

func raises(t *testing.T, a *agent) {
	var got cell
	a.call("run_code", args{"code": "1/0"}).into(&got)
	if got.Status != "error" || got.Error.Name != "ZeroDivisionError" || got.Error.Value != "division by zero" {
		t.Errorf("%+v", got)
	}
}

func plots(t *testing.T, a *agent) {
	code := "class P:\n  def _repr_png_(self): return __import__('base64').b64decode('" + tabtest.PNG + "')\nP()"
	res := a.call("run_code", args{"code": code})
	var got cell
	res.into(&got)
	if got.Images != 1 || len(res.Content) != 2 || res.Content[1].Type != "image" || res.Content[1].Data != tabtest.PNG {
		t.Errorf("%s", res.Raw)
	}
}

func leavesNoCell(t *testing.T, a *agent) {
	before := outlineOf(a)
	var got cell
	a.call("run_code", args{"code": "print('hello')\n6 * 7"}).into(&got)
	if after := outlineOf(a); got.Result != "42" || after.Total != before.Total {
		t.Errorf("%+v; %d cells before, %d after", got, before.Total, after.Total)
	}
}

// gated is a program that prints before and after it is let through. A live
// Colab sees no file of ours: there it stops for a moment.
func gated(t *testing.T) (code string, let func()) {
	gate, looks := filepath.Join(t.TempDir(), "gate"), patience/(20*time.Millisecond)
	if strings.Contains(t.Name(), "live") {
		looks = 60
	}
	code = fmt.Sprintf("import os, time\nprint('first', flush=True)\nfor _ in range(%d):\n  if os.path.exists(%q): break\n  time.sleep(0.02)\nprint('second')", looks, gate)
	return code, func() { write(t, gate, "", 0o600) }
}

func showsPartialOutput(t *testing.T, a *agent) {
	code, let := gated(t)
	var job cell
	a.call("run_code", args{"code": code, "background": true}).into(&job)
	for end := time.Now().Add(patience); ; {
		var got struct {
			Status  string
			Current *cell
			Cells   []cell
		}
		a.call("job_status", args{"job_id": job.JobID, "wait_s": 0.3}).into(&got)
		switch {
		case got.Current != nil && got.Current.Stdout == "first\n":
			let()
			a.call("job_status", args{"job_id": job.JobID, "wait_s": 30}).into(&got)
			if got.Status != "done" || len(got.Cells) != 1 || got.Cells[0].Stdout != "first\nsecond\n" {
				t.Errorf("in the end: %+v", got)
			}
			return
		case got.Status != "running" && got.Status != "queued" || time.Now().After(end):
			t.Fatalf("no partial output was seen: %+v", got)
		}
	}
}

func editsBesideARun(t *testing.T, a *agent) {
	code, let := gated(t)
	run := a.begin("run_code", args{"code": code})
	id := addCode(a, "# beside a run")
	cells := a.call("get_cells", args{"includeOutputs": true})
	select {
	case <-run.done:
		t.Error("the edit waited for the run")
	default:
	}
	if !strings.Contains(string(cells.Raw), "# beside a run") {
		t.Errorf("the edit is not to be seen: %.300s", cells.Raw)
	}
	let()
	var got cell
	run.answer().into(&got)
	if got.Stdout != "first\nsecond\n" {
		t.Errorf("%+v", got)
	}
	a.call("delete_cell", args{"cellId": id})
}

func movesACell(t *testing.T, a *agent) {
	id := addCode(a, "# moved")
	if res := a.call("move_cell", args{"cellId": id, "cellIndex": 0}); res.IsError {
		t.Fatal(res.text())
	}
	if o := outlineOf(a); o.Cells[0].ID != id {
		t.Errorf("%+v", o)
	}
}

func refusesAnUnknownCell(t *testing.T, a *agent) {
	res := a.call("update_cell", args{"cellId": "nosuchcell00", "content": "x"})
	if !res.IsError || !strings.Contains(res.text(), "nosuchcell00") {
		t.Errorf("%s", res.Raw)
	}
}

func deletesACell(t *testing.T, a *agent) {
	id := outlineOf(a).Cells[0].ID
	if res := a.call("delete_cell", args{"cellId": id}); res.IsError {
		t.Fatal(res.text())
	}
	ids, err := json.Marshal(outlineOf(a))
	if err != nil || slices.Contains(strings.Split(string(ids), `"`), id) {
		t.Errorf("%s is still there: %s (%v)", id, ids, err)
	}
}
