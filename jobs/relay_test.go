package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
	"colab-mcp/notebook"
)

func TestRunCodeCellIsRelayedByteForByte(t *testing.T) { // C9
	for _, answer := range []string{
		`{"content":[{"type":"text","text":"{\"outputs\":[{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":[\"a<b && c>d \u00e9\\n\"]}]}"}],"structuredContent":{"outputs":[{"n":9007199254740993,"e":1e400,"z":1,"a":2}]},"x":{}}`,
		`{"isError":true,"content":[{"type":"text","text":"No cell was found with ID 'x'"}]}`,
		`{"content":[{"type":"hologram","depth":3}]}`,
	} {
		virtual(t, setup{}, func(d *desk) {
			ids := d.fill("print a")
			d.far().Set(func(k *tabtest.Knobs) { k.Answer = map[string]string{"run_code_cell": answer} })
			go d.call("run_code_cell", with{"cellId": ids[0]}) // the SDK's client refuses the last one
			time.Sleep(time.Minute)
			if !strings.Contains(d.wire.String(), `"result":`+answer) {
				t.Errorf("changed: %s", answer)
			}
		})
	}
}

func TestRelayedRunIsHandedBack(t *testing.T) { // C11
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("print so far\nsleep 100\nprint end")
		r := d.call("run_code_cell", with{"cellId": ids[0]})
		var got map[string]json.RawMessage
		if json.Unmarshal([]byte(r.text), &got) != nil || string(got["status"]) != `"running"` || len(got) != 3 {
			t.Fatalf("got %s", r.text)
		}
		outs, err := notebook.DecodeOutputs(json.RawMessage(r.text))
		if err != nil || len(outs) != 1 || outs[0].Text != "so far\n" {
			t.Errorf("outputs so far: %s", got["outputs"])
		}
		if r.result.StructuredContent != nil || r.result.IsError {
			t.Errorf("%+v", r.result)
		}
		var id string
		json.Unmarshal(got["job_id"], &id)
		s := d.ended(id)
		equal(t, "kind", s.Kind, "run_code_cell")
		equal(t, "the tab's own answer", s.Cells[0].Stdout, "so far\nend\n")
		equal(t, "cell", []any{s.Cells[0].ID, *s.Cells[0].Index, s.Status}, []any{ids[0], 0, "done"})
	})
}

func TestRelayedRunWithoutOutputSoFar(t *testing.T) {
	virtual(t, setup{soft: 5 * time.Second}, func(d *desk) {
		ids := d.fill("sleep 100")
		if r := d.call("run_code_cell", with{"cellId": ids[0]}); !strings.HasSuffix(r.text, `"outputs":[]}`) {
			t.Errorf("got %s", r.text)
		}
	})
}

func TestRelayedRunOfNoCell(t *testing.T) { // C4: the tab's own words
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a")
		text := as[struct{ NewCellID string }](t, d.call("add_text_cell", with{"content": "x"})).NewCellID
		for _, id := range []string{"nope", text} {
			r := d.call("run_code_cell", with{"cellId": id})
			if !r.result.IsError || !strings.Contains(r.text, id) {
				t.Errorf("%s: %s", id, r.text)
			}
			equal(t, "job", d.status(d.newest()).Status, "failed")
		}
	})
}

func TestRelayedRunWaitsItsTurn(t *testing.T) { // X3, X5
	virtual(t, setup{}, func(d *desk) {
		ids := d.fill("sleep 10\nprint a", "print b")
		first := d.start("run_code_cell", with{"cellId": ids[0]})
		time.Sleep(time.Second)
		began := time.Now()
		d.tool("run_code_cell", with{"cellId": ids[1]})
		equal(t, "waited", time.Since(began), 9*time.Second)
		first.wait()
		equal(t, "in flight", d.far().MaxRunsInFlight(), 1)
		if outs, ok := d.nb.Remembered(ids[1], "print b"); !ok || len(outs) != 1 { // E4
			t.Error("a relayed run is not remembered for export")
		}
	})
}

func TestUnknownToolOfTheTabIsAJob(t *testing.T) { // issue 3, 1; C3
	k := tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("train", `{"type":"object","properties":{"n":{"type":"integer","description":"n"}}}`)},
		Delay: map[string]time.Duration{"train": 100 * time.Second}}
	virtual(t, setup{knobs: k}, func(d *desk) {
		d.fill("print a")
		for tool, args := range map[string]with{"train": {"n": 7}, "call_colab_tool": {"name": "train", "arguments": with{"n": 7}}} {
			began := time.Now()
			run := d.start(tool, args)
			time.Sleep(time.Second)
			next := d.start("run_code", with{"code": "print next"})
			var got cellsAnswer
			if json.Unmarshal([]byte(run.wait().text), &got); got.Status != "running" || got.JobID == "" {
				t.Fatalf("%s: %s", tool, run.wait().text)
			}
			equal(t, tool+" handed back after", time.Since(began), 45*time.Second)
			s := d.ended(got.JobID)
			equal(t, tool, []string{s.Kind, s.Status}, []string{"train", "done"})
			if s.Cells[0].Result != `{"n":7}` {
				t.Errorf("%s: its answer is not kept: %+v", tool, s)
			}
			if r := next.wait(); as[codeAnswer](t, r).Status != "running" { // it waited longer than its own limit
				t.Errorf("ran beside it: %s", r.text)
			}
		}
		equal(t, "calls", len(d.far().Calls("train")), 2)
	})
}

func TestLongAnswerOfAnUnknownToolFits(t *testing.T) { // R7
	long := strings.Repeat("0123456789", 100_000)
	k := tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("train", "")}, Delay: map[string]time.Duration{"train": time.Minute},
		Answer: map[string]string{"train": fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, long)}}
	virtual(t, setup{knobs: k}, func(d *desk) {
		got := as[cellsAnswer](t, d.call("train", with{}))
		r := d.call("job_status", with{"job_id": got.JobID, "wait_s": 40})
		s := as[jobAnswer](t, r)
		if s.Status != "done" || len(r.text) > 31_000 || s.Cells[0].OutputRef == "" {
			t.Fatalf("%d bytes: %.300s", len(r.text), r.text)
		}
		p := as[page](t, d.call("read_output", with{"output_ref": s.Cells[0].OutputRef}))
		if p.Total < len(long) {
			t.Errorf("kept %d bytes", p.Total)
		}
	})
}

func TestToolsThatRunNoCodeDoNotWait(t *testing.T) {
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 60")
		id := d.background("run_notebook", with{})
		time.Sleep(time.Second)
		began := time.Now()
		d.tool("get_cells", with{})
		equal(t, "waited", time.Since(began), 0)
		equal(t, "jobs", len(d.jobs.List()), 1)
		d.ended(id)
	})
}

func TestProgressOfTheTabIsRelayed(t *testing.T) { // C16
	k := tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("train", "")}, Progress: 5, Delay: map[string]time.Duration{"train": 500 * time.Millisecond}}
	virtual(t, setup{knobs: k}, func(d *desk) {
		run := d.start("train", with{}, true)
		run.wait()
		said := run.progress()
		if len(said) != 5 || said[4].Progress != 5 || said[4].Total != 5 {
			t.Errorf("relayed %+v", said)
		}
	})
}

func TestAnswerOfAnUnknownToolIsRendered(t *testing.T) { // R6, C7: no base64 in text
	picture := `"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="`
	for name, c := range map[string]struct{ answer, result string }{
		"outputs": {`{"structuredContent":{"outputs":[{"output_type":"stream","name":"stdout","text":"x"},{"output_type":"display_data","data":{"image/png":` + picture + `}}]}}`, ""},
		"blocks":  {`{"content":[{"type":"text","text":"plain \u001b[31mred"},{"type":"image","mimeType":"image/png","data":` + picture + `},{"type":"text","text":"{\"a\": 1}"}]}`, "plain red\n{\"a\":1}"},
		"other":   {`{"content":[],"structuredContent":{"a":[1,2]},"more":` + picture + `}`, `{"a":[1,2]}`},
	} {
		k := tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("train", "")}, Delay: map[string]time.Duration{"train": time.Minute}, Answer: map[string]string{"train": c.answer}}
		virtual(t, setup{knobs: k}, func(d *desk) {
			got := as[cellsAnswer](t, d.call("train", with{}))
			r := d.call("job_status", with{"job_id": got.JobID, "wait_s": 40})
			s := as[jobAnswer](t, r)
			equal(t, name+": result", s.Cells[0].Result, c.result)
			if strings.Contains(r.text, "iVBOR") {
				t.Errorf("%s: base64 in the text", name)
			}
			if pictured := strings.Contains(c.answer, "image/png"); pictured != (len(r.result.Content) == 2) {
				t.Errorf("%s: %d blocks", name, len(r.result.Content))
			}
		})
	}
}

func TestOutputSoFarOfARelayedRunFits(t *testing.T) { // R6, R7
	for name, show := range map[string]func(tabtest.Screen){
		"long":    func(s tabtest.Screen) { s.Write(strings.Repeat("a line of it\n", 5000)) },
		"escaped": func(s tabtest.Screen) { s.Write(strings.Repeat("\u2028", 20_000)) },
		"a picture": func(s tabtest.Screen) {
			s.Emit(localtab.Event{Type: "display_data", Content: json.RawMessage(`{"data":{"image/png":"iVBORw0KGgo="},"metadata":{}}`)})
		},
	} {
		virtual(t, setup{client: "codex-mcp-client", soft: 5 * time.Second}, func(d *desk) {
			ids := d.fill("show")
			d.far().Kernel.On("show", func(ctx context.Context, _ string, s tabtest.Screen) {
				show(s)
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
			})
			r := d.call("run_code_cell", with{"cellId": ids[0]})
			got := as[struct{ Status string }](t, r)
			if n := utf8.RuneCountInString(r.text); got.Status != "running" || n > notebook.CodexBudget || strings.Contains(r.text, "iVBOR") {
				t.Errorf("%s: %d characters: %.200s", name, n, r.text)
			}
		})
	}
}
