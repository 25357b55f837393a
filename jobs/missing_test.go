package jobs_test

import (
	"errors"
	"testing"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

func TestRunThatTheTabCannotFinishIsNotBegun(t *testing.T) { // design 10
	for _, lacks := range []string{"add_code_cell", "run_code_cell", "delete_cell"} {
		virtual(t, setup{knobs: tabtest.Knobs{WithoutTools: []string{lacks}}}, func(d *desk) {
			r := d.call("run_code", with{"code": "print x"})
			var missing *bridge.MissingToolError
			if !errors.As(r.err, &missing) || missing.Tool != lacks {
				t.Errorf("without %s: %+v", lacks, r)
			}
			if n := len(d.far().Calls("add_code_cell")); n != 0 {
				t.Errorf("without %s: %d cells were added", lacks, n)
			}
		})
	}
}
