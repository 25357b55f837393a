package jobs_test

import (
	"errors"
	"strings"
	"testing"

	"colab-mcp/bridge/localtab/tabtest"
	"colab-mcp/notebook"
)

// Issue: a tab that follows File → Open under the same socket is noticed, and
// the other notebook is not edited by somebody who means the first.
func TestAnotherNotebookUnderTheSameSocketIsNotEdited(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a", "print b")
		d.tool("get_notebook_outline", with{})
		added := len(d.far().Calls("add_code_cell"))
		d.far().Set(func(k *tabtest.Knobs) {
			k.Answer = map[string]string{"get_cells": `{"content":[],"structuredContent":{"cells":[{"cell_type":"code","id":"Other_000001","source":"rm -rf"}]}}`}
		})
		for _, c := range []struct {
			tool string
			args with
		}{{"add_code_cell", with{"code": "x"}}, {"add_text_cell", with{"content": "x"}}, {"run_cells", with{"start": 0}}, {"run_notebook", with{}}, {"run_code", with{"code": "x"}}} {
			var other *notebook.OtherError
			r := d.call(c.tool, c.args)
			if !errors.As(r.err, &other) && !strings.Contains(r.text, "another notebook") {
				t.Errorf("%s: %v %s", c.tool, r.err, r.text)
			}
		}
		equal(t, "cells added", len(d.far().Calls("add_code_cell")), added)
		equal(t, "cells run", len(d.ran()), 0)
		equal(t, "status says so", as[struct {
			Moved bool `json:"notebook_changed"`
		}](t, d.call("colab_connection_status", with{})).Moved, true)

		seen := as[struct {
			Total int
			Note  string
		}](t, d.call("get_notebook_outline", with{}))
		equal(t, "total", seen.Total, 1)
		if !strings.Contains(seen.Note, "another notebook") {
			t.Errorf("note: %q", seen.Note)
		}
		d.tool("add_text_cell", with{"content": "it is meant now"})
		equal(t, "status says that the link is another's", as[struct {
			Moved bool `json:"notebook_changed"`
		}](t, d.call("colab_connection_status", with{})).Moved, true)
	})
}

// Replacing all cells one by one is an edit, not another notebook.
func TestReplacingEveryCellIsNoOtherNotebook(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a")
		d.tool("get_notebook_outline", with{})
		for range 3 {
			id := d.add("print b")
			for _, old := range ids {
				d.tool("delete_cell", with{"cellId": old})
			}
			ids = []string{id}
		}
		equal(t, "status", as[cellsAnswer](t, d.call("run_cells", with{"cell_ids": ids})).Status, "ok")
	})
}
