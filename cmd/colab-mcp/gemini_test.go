package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
)

// gemini is the real Gemini CLI, headless, with our program as its MCP server
// and the test as its model.
type gemini struct {
	t     testing.TB
	model *model
	asks  *question // to be answered next
	out   lockedBuffer
	ended chan struct{} // closed when the program has ended with err
	err   error
}

// mcpPrefix is before the names of our tools where Gemini's model sees them.
const mcpPrefix = "mcp_colab_"

// startGemini starts the program with a prompt and returns when the model is
// asked for the first time.
func startGemini(t testing.TB, serverArgs ...string) *gemini {
	t.Helper()
	cmd := npmProgram(t, "gemini", "-p", "go", "--approval-mode", "yolo", "--model", "gemini-2.5-flash")
	python := kernelPython(t)
	state, project, home := t.TempDir(), t.TempDir(), t.TempDir()
	ownHome, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(map[string]any{
		"security":  map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
		"telemetry": map[string]any{"enabled": false},
		"privacy":   map[string]any{"usageStatisticsEnabled": false},
		"general":   map[string]any{"disableAutoUpdate": true, "enableAutoUpdate": false},
		"mcpServers": map[string]any{"colab": map[string]any{
			"command": binary(t),
			"args":    append([]string{"--state-dir", state, "--browser", binary(t) + " tab --python " + python}, serverArgs...),
			"env":     map[string]string{"HOME": ownHome}, // the kernel's files are nobody's litter
			"timeout": patience.Milliseconds(),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(project, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, ".gemini", "settings.json"), settings, 0o600); err != nil {
		t.Fatal(err)
	}

	g := &gemini{t: t, model: startModel(t), ended: make(chan struct{})}
	cmd.Dir = project
	cmd.Env = append(cmd.Env, "HOME="+home, "GOOGLE_GEMINI_BASE_URL="+g.model.URL, "GEMINI_API_KEY=none",
		"GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true", "NO_PROXY=127.0.0.1")
	cmd.Stdout, cmd.Stderr = &g.out, &g.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		g.err = cmd.Wait()
		close(g.ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-g.ended
		// The server lets its state directory go when it ends, last.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		lock := flock.New(filepath.Join(state, "dir.lock"))
		if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
			t.Errorf("the server has not ended with its client: %v", err)
		}
		lock.Unlock()
		if t.Failed() {
			t.Logf("Gemini CLI said:\n%s", &g.out)
		}
	})
	g.next()
	return g
}

// next waits until the model is asked.
func (g *gemini) next() {
	g.t.Helper()
	select {
	case g.asks = <-g.model.asked:
	case <-g.ended:
		g.t.Fatalf("Gemini CLI ended (%v) before it asked the model again", g.err)
	case <-time.After(patience):
		g.t.Fatalf("Gemini CLI has not asked the model in %v", patience)
	}
}

// heard is what the model is given for a call.
type heard struct {
	t      testing.TB
	text   string
	images []*blob
}

// call makes the model call a tool of ours, and returns what it is given back.
func (g *gemini) call(tool string, a args) heard {
	g.t.Helper()
	if a == nil {
		a = args{}
	}
	g.asks.reply <- part{Call: &functionCall{ID: tool + "-call", Name: mcpPrefix + tool, Args: a}}
	g.next()
	h := heard{t: g.t}
	for _, p := range g.asks.last() {
		switch {
		case p.Result != nil && p.Result.Name == mcpPrefix+tool:
			text, ok := p.Result.Response["output"].(string)
			if !ok {
				g.t.Fatalf("%s failed: %v", tool, p.Result.Response)
			}
			h.text = text
		case p.Inline != nil:
			h.images = append(h.images, p.Inline)
		}
	}
	return h
}

// into decodes the JSON object in what the model was given. Gemini CLI wraps
// it in a mark of untrusted text.
func (h heard) into(v any) {
	h.t.Helper()
	_, object, _ := strings.Cut(h.text, "<untrusted_context>\n")
	if err := json.NewDecoder(strings.NewReader(object)).Decode(v); err != nil {
		h.t.Fatalf("not a JSON object (%v): %q", err, h.text)
	}
}

// finish makes the model end the conversation, and waits for a good end.
func (g *gemini) finish() {
	g.t.Helper()
	g.asks.reply <- part{Text: "That is all."}
	select {
	case <-g.ended:
	case <-time.After(patience):
		g.t.Fatalf("Gemini CLI has not ended in %v", patience)
	}
	if g.err != nil || !strings.Contains(g.out.String(), "That is all.") {
		g.t.Errorf("Gemini CLI ended with %v; wanted status 0 and the model's last words", g.err)
	}
}

// modelCell is what of a CELL these tests look at.
type modelCell struct {
	ID, Status, Stdout string
	Images             int
}

// C1, C6: the model is told of every tool of ours, before any tab is there,
// with the schema as we wrote it and Gemini's own parameter beside.
func TestGeminiOffersEveryTool(t *testing.T) {
	g := startGemini(t)
	offered := g.asks.declarations(mcpPrefix)
	ours := startAgent(t, "--browser", "none").listTools()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(offered))); diff != "" {
		t.Errorf("the model is offered other tools than we list (-listed +offered):\n%s", diff)
	}
	for name, d := range offered {
		properties, _ := d.Schema["properties"].(map[string]any)
		if properties["wait_for_previous"] == nil {
			t.Errorf("%s: Gemini adds wait_for_previous no more", name)
		}
		delete(properties, "wait_for_previous")
		if diff := cmp.Diff(ours[name].Schema, d.Schema); diff != "" {
			t.Errorf("%s: the model sees another schema (-listed +offered):\n%s", name, diff)
		}
		if d.Description != ours[name].Description {
			t.Errorf("%s: the model reads %q", name, d.Description)
		}
	}
	first, _, _ := strings.Cut(instructions, "\n")
	if !bytes.Contains(g.asks.Body, []byte(first)) {
		t.Error("the model does not get our instructions")
	}
	g.finish()
}

// Issue: it starts our program, opens, adds a cell, runs it, gets a plot.
// C7, C15: results are objects, images arrive, wait_for_previous is dropped.
func TestGeminiDoesTheMainJob(t *testing.T) {
	g := startGemini(t)

	var opened struct {
		Result bool
		State  string
	}
	if g.call("open_colab_browser_connection", nil).into(&opened); !opened.Result || opened.State != "ready" {
		t.Fatalf("opened: %+v", opened)
	}

	var added struct{ NewCellID string }
	g.call("add_code_cell", args{"code": "print(6 * 7)", "wait_for_previous": true}).into(&added)

	var ran struct {
		Status string
		Cells  []modelCell
	}
	g.call("run_cells", args{"cell_ids": []string{added.NewCellID}, "wait_for_previous": false}).into(&ran)
	if want := []modelCell{{ID: added.NewCellID, Status: "ok", Stdout: "42\n"}}; ran.Status != "ok" || !cmp.Equal(ran.Cells, want) {
		t.Errorf("run_cells: %+v; wanted %+v", ran, want)
	}

	plot := g.call("run_code", args{"code": picture, "wait_for_previous": true})
	var drawn modelCell
	if plot.into(&drawn); drawn.Status != "ok" || drawn.Images != 1 || len(plot.images) != 1 {
		t.Fatalf("run_code: %+v and %d images; wanted one", drawn, len(plot.images))
	}
	if drawing, err := png.DecodeConfig(bytes.NewReader(plot.images[0].Data)); err != nil || plot.images[0].Type != "image/png" || drawing.Width != 320 || drawing.Height != 200 {
		t.Errorf("the model sees a %s of %d by %d (%v); wanted a PNG of 320 by 200", plot.images[0].Type, drawing.Width, drawing.Height, err)
	}

	var outline struct{ Total int }
	if g.call("get_notebook_outline", nil).into(&outline); outline.Total != 2 {
		t.Errorf("the notebook has %d cells at the end; wanted the empty first one and the added one", outline.Total)
	}
	g.finish()
}

// picture is a plot, 320 by 200, without matplotlib.
const picture = `import struct, zlib
from IPython.display import Image
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
rows = b''.join(b'\0' + bytes((x + y) % 256 for x in range(320)) for y in range(200))
Image(data=b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 320, 200, 8, 0, 0, 0, 0))
      + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))`

// C11: a run that outlasts the soft limit comes back as a job, and job_status
// has its end.
func TestGeminiFollowsALongRun(t *testing.T) {
	g := startGemini(t, "--soft-limit", "1s")
	var opened struct{ Result bool }
	if g.call("open_colab_browser_connection", nil).into(&opened); !opened.Result {
		t.Fatal("not opened")
	}
	// The cell lasts until the test has seen that it was handed back.
	gate := filepath.Join(t.TempDir(), "gate")
	name, err := json.Marshal(gate)
	if err != nil {
		t.Fatal(err)
	}
	code := "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists(" + string(name) + "): time.sleep(0.02)\nprint('ended')"
	var begun struct {
		Status string
		JobID  string `json:"job_id"`
	}
	if g.call("run_code", args{"code": code}).into(&begun); begun.Status != "running" || begun.JobID == "" {
		t.Fatalf("run_code: %+v; wanted a job that is running", begun)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var job struct {
		Status string
		Cells  []modelCell
	}
	for deadline := time.Now().Add(patience); job.Status != "done" && time.Now().Before(deadline); {
		job.Cells = nil
		g.call("job_status", args{"job_id": begun.JobID, "wait_s": 1}).into(&job)
	}
	if job.Status != "done" || len(job.Cells) != 1 || job.Cells[0].Stdout != "begun\nended\n" {
		t.Errorf("job_status: %+v; wanted it done with all its output", job)
	}
	g.finish()
}
