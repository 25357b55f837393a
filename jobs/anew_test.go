package jobs_test

import (
	"context"
	"strings"
	"testing"

	"colab-mcp/bridge/localtab/tabtest"
)

// Runs that show no count, or have no result of ours, between the kernel's
// restart and the run that is to say so.
func TestRestartIsSaidByTheNextResultThatCan(t *testing.T) { // issue 3, 5
	for name, between := range map[string]func(d *desk, id string) with{
		"nothing":         func(*desk, string) with { return with{} },
		"its deadline":    func(*desk, string) with { return with{"timeout_s": 60} },
		"a relayed run":   func(d *desk, id string) with { d.tool("run_code_cell", with{"cellId": id}); return with{} },
		"a large output":  func(d *desk, _ string) with { d.tool("run_code", with{"code": "large"}); return with{} },
		"a relayed death": func(d *desk, id string) with { d.tool("run_code_cell", with{"cellId": id}); return with{} },
		"a file's chunks": func(d *desk, _ string) with { d.plain("print chunk", 2); return with{} },
	} {
		virtual(t, setup{}, func(d *desk) {
			source := "print a"
			if name == "a relayed death" {
				source = "restart"
			}
			ids := d.fill(source)
			withDeadlines(d.far().Kernel)
			d.far().Kernel.On("large", func(_ context.Context, _ string, s tabtest.Screen) { s.Write(strings.Repeat("x", 600_000)) })
			d.tool("run_code", with{"code": "print first"})
			if name != "a relayed death" {
				d.far().Kernel.Restart(context.Background())
			}
			args := between(d, ids[0])
			args["code"] = "print b"
			equal(t, name, as[codeAnswer](t, d.call("run_code", args)).Restarted, true)
			equal(t, name+": said once", as[codeAnswer](t, d.call("run_code", with{"code": "print c"})).Restarted, false)
		})
	}
}

func TestRunsWithoutACountAreNoRestart(t *testing.T) { // issue 3, 5
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print a")
		withDeadlines(d.far().Kernel)
		d.far().Kernel.On("large", func(_ context.Context, _ string, s tabtest.Screen) { s.Write(strings.Repeat("x", 600_000)) })
		for range 3 {
			d.tool("run_code", with{"code": "large"})
			d.plain("print chunk", 3)
			d.tool("run_code_cell", with{"cellId": ids[0]})
			equal(t, "restarted", as[codeAnswer](t, d.call("run_code", with{"code": "print b", "timeout_s": 60})).Restarted, false)
		}
	})
}

// plain runs code as a transfer does, so often.
func (d *desk) plain(code string, times int) {
	d.t.Helper()
	ctx := context.Background()
	s, err := d.nb.Scratch(ctx, d.bridge.Live(), "", code)
	if err != nil {
		d.t.Fatal(err)
	}
	defer s.Drop(ctx)
	for range times {
		if _, _, err := s.RunPlain(); err != nil {
			d.t.Fatal(err)
		}
	}
}
