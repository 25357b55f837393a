package localtab

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const sample = `{
 "nbformat": 4, "nbformat_minor": 2,
 "metadata": {"colab": {"provenance": [9007199254740993]}, "kernelspec": {"name": "python3", "display_name": "Python 3"}},
 "unknown": {"kept": true},
 "cells": [
  {"cell_type": "markdown", "metadata": {"id": "Qa7_xM2-kLp9"}, "source": ["# <T>\n", "x"], "attachments": {"a.png": {"image/png": "AA=="}}},
  {"cell_type": "code", "metadata": {"id": "Qa7_xM2-kLp9", "cellView": "form"}, "source": "print('é')\n", "execution_count": 3, "outputs": [
   {"output_type": "stream", "name": "stdout", "text": "é\n1"},
   {"output_type": "display_data", "data": {"image/png": "AA==", "application/x+json": {"a": 1e400}}, "metadata": {}},
   {"output_type": "future", "z": [1, 2]}]},
  {"cell_type": "code", "id": "not legal!", "metadata": {}, "source": [], "execution_count": null, "outputs": []}
 ]
}`

func TestNotebookFileRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.ipynb")
	if err := os.WriteFile(path, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	nb, err := loadNotebook(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := nb.save(path); err != nil {
		t.Fatal(err)
	}
	var before, after map[string]any
	saved, _ := os.ReadFile(path)
	decodeAll(t, []byte(sample), &before)
	decodeAll(t, saved, &after)
	// What a save adds: version 4.5 with an id for each cell, and text as lists of lines.
	before["nbformat_minor"] = json.Number("5")
	cells := before["cells"].([]any)
	c0, c1, c2 := cells[0].(map[string]any), cells[1].(map[string]any), cells[2].(map[string]any)
	c0["id"], c1["id"], c2["id"] = nb.cells[0].id, nb.cells[1].id, nb.cells[2].id
	c1["source"] = []any{"print('é')\n"}
	c1["outputs"].([]any)[0].(map[string]any)["text"] = []any{"é\n", "1"}
	if d := cmp.Diff(before, after); d != "" {
		t.Error(d)
	}
	if nb.cells[0].id != "Qa7_xM2-kLp9" || nb.cells[1].id == nb.cells[0].id || !idPattern.MatchString(nb.cells[2].id) {
		t.Errorf("ids %q %q %q", nb.cells[0].id, nb.cells[1].id, nb.cells[2].id)
	}
	again, err := loadNotebook(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := again.encode(); err != nil || !bytes.Equal(b, saved) {
		t.Errorf("a second save differs: %v", err)
	}
	info, _ := os.Stat(path)
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 || info.Mode().Perm() != 0o600 {
		t.Errorf("%d files, mode %v", len(entries), info.Mode())
	}
	if python, err := exec.LookPath("/usr/bin/python3"); err == nil && exec.Command(python, "-c", "import nbformat").Run() == nil {
		// The official schema, where it is installed.
		if out, err := exec.Command(python, "-W", "error", "-c", "import nbformat,sys; nb=nbformat.read(sys.argv[1],4); nb.cells[1].outputs.pop(); nb.pop('unknown'); nbformat.validate(nb)", path).CombinedOutput(); err != nil {
			t.Errorf("nbformat: %s", out)
		}
	}
}

func decodeAll(t *testing.T, data []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}

func TestEditsAreSavedAndComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.ipynb")
	tab, err := New(Options{Notebook: path, Kernel: echoKernel{}})
	if err != nil {
		t.Fatal(err)
	}
	id := tab.nb.insert(0, "code", "a\nb")
	r, err := tab.start(id)
	if err != nil {
		t.Fatal(err)
	}
	<-r.done
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	nb, err := loadNotebook(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(nb.cellsBetween(0, 0, true))
	want := `{"cells":[{"cell_type":"code","id":"` + id + `","source":["a\n","b"],"execution_count":1,"outputs":[{"output_type":"stream","name":"stdout","text":["a\n","b"]}]}]}`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// slowToEnd is a kernel that looks at the file when it is told to end.
type slowToEnd struct {
	echoKernel
	end func()
}

func (k slowToEnd) Close() error { k.end(); return nil }

// The bridge may open the notebook anew as soon as the socket is closed: what it finds is all there, and the old tab
// leaves it alone from then on.
func TestCloseSavesBeforeTheKernelEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.ipynb")
	opened := []byte("what the next tab has saved")
	k := slowToEnd{end: func() {
		if data, err := os.ReadFile(path); !bytes.Contains(data, []byte("late edit")) {
			t.Errorf("not saved: %s, %v", data, err)
		}
		if err := os.WriteFile(path, opened, 0o600); err != nil {
			t.Error(err)
		}
	}}
	tab, err := New(Options{Kernel: k, Notebook: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"first", "late edit"} { // the second within the pause after a save
		tab.nb.insert(0, "code", code)
		tab.changed()
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(path); !bytes.Equal(data, opened) {
		t.Errorf("the next tab's file was overwritten: %s", data)
	}
}

func TestFilesThatAreNoNotebooks(t *testing.T) {
	for name, content := range map[string]string{
		"a.ipynb": `{`, "b.ipynb": `{"nbformat":3,"worksheets":[]}`, "c.ipynb": `{"nbformat":4,"cells":[{"cell_type":7}]}`,
		"d.ipynb": `[]`, "e.ipynb": `{"nbformat":4,"cells":[{"cell_type":"code","source":[1]}]}`, "f.txt": sample,
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Notebook: path, Kernel: echoKernel{}}); !errors.Is(err, ErrNotebook) {
			t.Errorf("%s: error %v", content, err)
		}
		if now, _ := os.ReadFile(path); string(now) != content {
			t.Errorf("%s was changed", name)
		}
	}
}

func FuzzStringsSurviveEncoding(f *testing.F) {
	for _, s := range []string{"", "a\nb\n", "\r\n", "é\u2028\x00\x1f\"\\/<>&", "\xff\xfe\xc3", "\n", "😀\xf0\x9f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := strings.ToValidUTF8(s, "\ufffd")
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(s) && got != s {
			t.Errorf("%q came back as %q", s, got)
		}
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		lines, err := joinedLines(appendLines(nil, []byte(want)))
		if err != nil || lines != want {
			t.Errorf("lines of %q: %q, %v", want, lines, err)
		}
	})
}

func FuzzNotebookFile(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"nbformat":4,"cells":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		nb, err := decodeNotebook(data)
		if err != nil {
			return
		}
		b, err := nb.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeNotebook(b)
		if err != nil {
			t.Fatalf("what was saved cannot be read: %v\n%s", err, b)
		}
		if c, err := again.encode(); err != nil || !bytes.Equal(b, c) {
			t.Errorf("a second save differs: %v\n%s\n%s", err, b, c)
		}
		if !json.Valid(nb.cellsBetween(0, len(nb.cells), true)) {
			t.Error("get_cells is no JSON")
		}
	})
}
