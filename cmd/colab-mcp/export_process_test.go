package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"colab-mcp/bridge/localtab/tabtest"
)

// exported is what export_notebook answers, and the file.
type exported struct {
	Cells      int
	FromMemory int `json:"outputs_from_memory"`
	file       []byte
}

func (a *agent) export() (e exported) {
	a.t.Helper()
	path := filepath.Join(a.t.TempDir(), "n.ipynb")
	a.call("export_notebook", args{"path": path}).into(&e)
	var err error
	if e.file, err = os.ReadFile(path); err != nil {
		a.t.Fatal(err)
	}
	return e
}

// onlyCell is an answer of get_cells that mentions no outputs.
func onlyCell(id, source string) map[string]string {
	return map[string]string{"get_cells": fmt.Sprintf(`{"content":[],"structuredContent":{"cells":[{"cell_type":"code","id":%q,"source":[%q]}]}}`, id, source)}
}

// E4: where the tab says nothing of outputs, the export has those of the last
// run here: of the same source, in the same notebook.
func TestExportRemembersTheLastRun(t *testing.T) {
	a := serve(t, stateDir(t))
	tab := a.connect(a.ask(oneNotebook), tabtest.Knobs{})
	id := addCode(a, "print remembered")
	if got := a.call("run_cells", args{"cell_ids": []string{id}}); got.IsError {
		t.Fatal(got.text())
	}
	if e := a.export(); e.FromMemory != 0 || !bytes.Contains(e.file, []byte("remembered\\n")) {
		t.Errorf("what the tab shows: %d from memory, %s", e.FromMemory, e.file)
	}
	tab.Set(func(k *tabtest.Knobs) { k.Answer = onlyCell(id, "print remembered") })
	if e := a.export(); e.FromMemory != 1 || e.Cells != 1 || !bytes.Contains(e.file, []byte("remembered\\n")) {
		t.Errorf("%d from memory, %s", e.FromMemory, e.file)
	}
	tab.Set(func(k *tabtest.Knobs) { k.Answer = onlyCell(id, "print another") })
	if e := a.export(); e.FromMemory != 0 || bytes.Contains(e.file, []byte("remembered\\n")) {
		t.Errorf("another source: %d from memory, %s", e.FromMemory, e.file)
	}
	tab.Set(func(k *tabtest.Knobs) { k.Answer = nil })
	a.connect(a.ask(otherNotebook), tabtest.Knobs{Answer: onlyCell(id, "print remembered")})
	if e := a.export(); e.FromMemory != 0 {
		t.Errorf("another notebook: %d from memory, %s", e.FromMemory, e.file)
	}
}

// X4: a notebook is exported without the cells of a transfer under way.
func TestExportLeavesTemporaryCellsOut(t *testing.T) {
	b := beginTransfer(t, "upload_file")
	waitFor(t, "both cells of the transfer", func() bool { return len(b.far.Calls("add_code_cell")) == 2 })
	user := addCode(b.agent, "print mine")
	e := b.export()
	var nb struct{ Cells []struct{ ID string } }
	if err := json.Unmarshal(e.file, &nb); err != nil || len(nb.Cells) != 2 || e.Cells != 2 || nb.Cells[1].ID != user {
		t.Errorf("%v, %d cells: %.2000s", err, e.Cells, e.file)
	}
	close(b.kernel.step)
	if j := b.ended(); j.Status != "done" {
		t.Errorf("the transfer: %+v", j)
	}
}
