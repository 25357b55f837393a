package jobs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"colab-mcp/jobs"
	"colab-mcp/notebook"
)

type page struct {
	OutputRef  string `json:"output_ref"`
	Stream     string
	Offset     int
	Bytes      int
	Total      int
	Text       string
	NextOffset *int `json:"next_offset"`
	Matches    *int
}

// lines is a script that prints n numbered lines.
func lines(n int) (script, output string) {
	var s, o strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "print line %05d é\n", i)
		fmt.Fprintf(&o, "line %05d é\n", i)
	}
	return s.String(), o.String()
}

func TestBudgetFollowsTheClient(t *testing.T) { // R7, issue 3, 9
	script, _ := lines(3_000)
	for _, c := range []struct {
		client string
		max    int
		want   int
	}{{"gemini-cli-mcp-client", 0, 30_000}, {"codex-mcp-client", 0, 10_000}, {"claude-code", 5_000, 5_000}, {"codex-mcp-client", 20_000, 20_000}} {
		virtual(t, setup{client: c.client, maxOutput: c.max}, func(d *desk) {
			d.fill(script, "print b", script)
			for tool, args := range map[string]with{"run_code": {"code": script}, "run_cells": {"start": 0}} {
				r := d.call(tool, args)
				if n := utf8.RuneCountInString(r.text); n > c.want || n < c.want*8/10 || r.err != nil {
					t.Errorf("%s for %s: %d of %d characters, %v", tool, c.client, n, c.want, r.err)
				}
				status := d.call("job_status", with{"job_id": d.newest()})
				if n := utf8.RuneCountInString(status.text); n > c.want || n < c.want*8/10 {
					t.Errorf("job_status for %s: %d of %d characters", c.client, n, c.want)
				}
			}
		})
	}
}

// R7: Codex and opencode count bytes, and cut Japanese text at a third of what
// they take of English.
func TestBudgetIsCountedAsTheClientCounts(t *testing.T) {
	script := strings.Repeat("print 日本語テキスト日本語テキスト\n", 2_000)
	for _, c := range []struct {
		client string
		count  func(string) int
		want   int
	}{
		{"opencode", func(s string) int { return len(s) }, 30_000},
		{"codex-mcp-client", func(s string) int { return len(s) }, 10_000},
		{"claude-code", utf8.RuneCountInString, 30_000},
	} {
		virtual(t, setup{client: c.client}, func(d *desk) {
			r := d.call("run_code", with{"code": script})
			texts := map[string]string{"run_code": r.text, "job_status": d.call("job_status", with{"job_id": d.newest()}).text,
				"read_output": d.call("read_output", with{"output_ref": as[codeAnswer](t, r).OutputRef}).text}
			for tool, text := range texts {
				if n := c.count(text); n > c.want || n < c.want*8/10 {
					t.Errorf("%s for %s: %d of %d", tool, c.client, n, c.want)
				}
			}
		})
	}
}

func TestNothingCutIsLost(t *testing.T) { // issue 3, 9
	virtual(t, setup{}, func(d *desk) {
		script, want := lines(5_000)
		got := as[codeAnswer](t, d.call("run_code", with{"code": script}))
		cut := got.Truncated["stdout"]
		if got.OutputRef == "" || cut == 0 {
			t.Fatalf("not cut: %d bytes, %+v", len(got.Stdout), got.Truncated)
		}
		if !strings.HasPrefix(got.Stdout, "line 00000 é\n") || !strings.HasSuffix(got.Stdout, "line 04999 é\n") || !utf8.ValidString(got.Stdout) {
			t.Errorf("cut to %.100q … %q", got.Stdout, got.Stdout[len(got.Stdout)-50:])
		}
		shown := 0
		for line := range strings.Lines(got.Stdout) {
			if strings.HasPrefix(line, "line ") {
				shown += len(line)
			} else if !strings.Contains(line, got.OutputRef) {
				t.Errorf("the cut does not say where the rest is: %q", line)
			}
		}
		equal(t, "shown and cut", shown+cut, len(want))
		var all strings.Builder
		for offset, n := 0, 0; ; n++ {
			p := as[page](t, d.call("read_output", with{"output_ref": got.OutputRef, "stream": "stdout", "offset": offset}))
			if n > 100 || p.Offset != offset || p.Total != len(want) || p.Bytes != len(p.Text) {
				t.Fatalf("page %d: %d bytes at %d of %d", n, p.Bytes, p.Offset, p.Total)
			}
			all.WriteString(p.Text)
			if p.NextOffset == nil {
				break
			}
			offset = *p.NextOffset
		}
		if all.String() != want {
			t.Errorf("read back %d bytes, not the %d that were printed", all.Len(), len(want))
		}
		found := as[page](t, d.call("read_output", with{"output_ref": got.OutputRef, "grep": "line 0123[0-4]"}))
		if found.Matches == nil || *found.Matches != 5 {
			t.Errorf("grep: %+v", found)
		}
		tail := as[page](t, d.call("read_output", with{"output_ref": got.OutputRef, "tail": 2}))
		equal(t, "tail", tail.Text, "line 04998 é\nline 04999 é\n")
		equal(t, "the same one again", d.status(d.newest()).Cells[0].OutputRef, got.OutputRef)
	})
}

func TestReadOutputRefuses(t *testing.T) { // C8
	virtual(t, setup{}, func(d *desk) {
		script, _ := lines(5_000)
		ref := as[codeAnswer](t, d.call("run_code", with{"code": script})).OutputRef
		var missing *jobs.NotFoundError
		if r := d.call("read_output", with{"output_ref": "out-nope"}); !errors.As(r.err, &missing) || missing.What != "output" {
			t.Errorf("unknown: %v", r.err)
		}
		if r := d.call("read_output", with{"output_ref": "../jobs"}); r.err == nil {
			t.Errorf("a path: %s", r.text)
		}
		var stream *notebook.StreamError
		if r := d.call("read_output", with{"output_ref": ref, "stream": "nope"}); !errors.As(r.err, &stream) {
			t.Errorf("stream: %v", r.err)
		}
		if r := d.call("read_output", with{"output_ref": ref, "grep": "("}); !errors.Is(r.err, notebook.ErrQuery) {
			t.Errorf("grep: %v", r.err)
		}
	})
}

func TestPartialOutputThatIsCutCanBeReadToo(t *testing.T) { // issue 3, 9
	virtual(t, setup{}, func(d *desk) {
		script, want := lines(5_000)
		id := d.background("run_code", with{"code": script + "sleep 100\n"})
		time.Sleep(10 * time.Second)
		s := d.status(id)
		if s.Current == nil || s.Current.OutputRef == "" {
			t.Fatalf("current: %+v", s.Current)
		}
		p := as[page](t, d.call("read_output", with{"output_ref": s.Current.OutputRef, "tail": 1}))
		equal(t, "total", p.Total, len(want))
		equal(t, "tail", p.Text, "line 04999 é\n")
		d.ended(id)
	})
}

func TestLongTracebackKeepsItsEnd(t *testing.T) { // R4, R7
	virtual(t, setup{}, func(d *desk) {
		script, _ := lines(5_000)
		r := d.call("run_code", with{"code": script + "error ValueError " + strings.Repeat("long ", 20_000) + "end"})
		got := as[codeAnswer](t, r)
		if got.Status != "error" || got.Error == nil || got.Error.Name != "ValueError" || !strings.HasSuffix(got.Error.Traceback, "end") {
			t.Errorf("error: %.300s", r.text)
		}
		if n := utf8.RuneCountInString(r.text); n > 30_000 {
			t.Errorf("%d characters", n)
		}
		p := as[page](t, d.call("read_output", with{"output_ref": got.OutputRef, "stream": "traceback", "tail": 1}))
		if !strings.HasSuffix(p.Text, "end") {
			t.Errorf("kept: …%q", p.Text[max(0, len(p.Text)-50):])
		}
	})
}

func TestManyCellsFitToo(t *testing.T) { // R7
	virtual(t, setup{client: "codex"}, func(d *desk) {
		sources := make([]string, 300)
		for i := range sources {
			sources[i] = fmt.Sprintf("print cell %d", i)
		}
		sources[299] = "print the last\nsleep 100"
		d.fill(sources...)
		id := d.background("run_notebook", with{})
		time.Sleep(5 * time.Second)
		r := d.call("job_status", with{"job_id": id})
		s := as[jobAnswer](t, r)
		if n := utf8.RuneCountInString(r.text); n > 10_000 {
			t.Errorf("%d characters", n)
		}
		equal(t, "told and left out", len(s.Cells)+s.Omitted, 299)
		if s.Current == nil || s.Current.Stdout != "the last\n" {
			t.Errorf("the running cell is left out: %+v", s.Current)
		}
		s = d.ended(id)
		equal(t, "done", []int{s.Done, len(s.Cells) + s.Omitted}, []int{300, 300})
	})
}

func TestNoOutputIsNoText(t *testing.T) { // R5
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("pass")
		r := d.call("run_cells", with{"start": 0})
		for _, word := range []string{"no output", "stdout", "result", "truncated"} {
			if strings.Contains(r.text, word) {
				t.Errorf("%q in %s", word, r.text)
			}
		}
		outs, ok := d.nb.Remembered(ids[0], "pass")
		if !ok || len(outs) != 0 {
			t.Errorf("remembered %s, %v", outs, ok)
		}
	})
}

func TestRunIsRememberedForExport(t *testing.T) { // E4
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a", "print b")
		d.tool("run_cells", with{"start": 0})
		d.tool("run_code", with{"code": "print temporary"})
		outs, ok := d.nb.Remembered(ids[0], "print a")
		var o struct {
			Type string `json:"output_type"`
			Text []string
		}
		if !ok || len(outs) != 1 || json.Unmarshal(outs[0], &o) != nil || o.Type != "stream" || strings.Join(o.Text, "") != "a\n" {
			t.Errorf("remembered %s", outs)
		}
		if _, ok := d.nb.Remembered(ids[0], "print other"); ok {
			t.Error("the source has changed")
		}
		d.drop()
		d.open()
		if _, ok := d.nb.Remembered(ids[1], "print b"); !ok {
			t.Error("forgotten when the same notebook came back")
		}
	})
}

func TestPicturesOfARunAreBounded(t *testing.T) { // R6
	virtual(t, setup{}, func(d *desk) {
		sources := make([]string, 12)
		for i := range sources {
			sources[i] = "image png"
		}
		d.fill(sources...)
		r := d.call("run_cells", with{"start": 0})
		got := as[cellsAnswer](t, r)
		told := 0
		for _, c := range got.Cells {
			told += c.Images
		}
		equal(t, "pictures sent", len(r.result.Content)-1, notebook.MaxImages)
		equal(t, "pictures told", told, notebook.MaxImages)
		if note := got.Cells[11].Note + got.Cells[11].Result; !strings.Contains(note, "image") {
			t.Errorf("the last one is not named: %+v", got.Cells[11])
		}
	})
}
