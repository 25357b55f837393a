package bridge_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

var (
	textOnly       = localtab.Options{TextOnly: true}
	structuredOnly = localtab.Options{StructuredOnly: true}
)

// C1
func TestListIsTheSameBeforeDuringAndAfterATab(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		before, _ := a.tools()
		for _, tool := range bridge.Catalog() {
			if !slices.Contains(before, tool.Name) {
				t.Errorf("%s is not listed without a tab", tool.Name)
			}
		}
		for range 3 {
			f, _ := a.connect(tabtest.Knobs{})
			during, _ := a.tools()
			f.Drop()
			synctest.Wait()
			after, _ := a.tools()
			if !slices.Equal(before, during) || !slices.Equal(before, after) {
				t.Errorf("before %q\nduring %q\nafter  %q", before, during, after)
			}
		}
		if n := len(slices.Compact(slices.Clone(before))); n != len(before) {
			t.Errorf("listed twice: %q", before)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := a.notes("notifications/tools/list_changed"); len(n) != 0 {
			t.Errorf("the list did not change, and %d notifications say so", len(n))
		}
	})
}

// C8: a number that no machine holds is refused by the argument's name, in no words of Go's.
func TestNumberThatDoesNotFitIsNamed(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		r := a.call("run_code", `{"times":99999999999999999999}`)
		if want := "run_code: times: expected an int, got number 99999999999999999999"; !r.IsError || r.text() != want {
			t.Errorf("got %q, want %q", r.text(), want)
		}
	})
}

// C1, C8, L8: without a tab a call is an isError result, and listing and status open no browser.
func TestCallsWithoutATabAreErrorsAModelCanRead(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		for tool, args := range map[string]string{
			"get_cells": "", "add_code_cell": `{"code":"1"}`, "run_code_cell": `{"cellId":"x"}`, "list_colab_tools": "",
			"call_colab_tool": `{"name":"get_cells"}`, "delete_cell": `{"cellId":"x"}`,
		} {
			if r := a.call(tool, args); !r.IsError || !strings.Contains(r.text(), "no Colab tab is connected") || r.StructuredContent != nil {
				t.Errorf("%s: %+v", tool, r)
			}
		}
		if r := a.call("colab_connection_status", ""); r.IsError {
			t.Errorf("status: %+v", r)
		}
		if l := a.links(); len(l) != 0 {
			t.Errorf("%d browsers were opened", len(l))
		}
	})
}

// C2: bursts coalesce.
func TestBurstOfChangesIsToldOnce(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		f, _ := a.connect(tabtest.Knobs{})
		f.AddTools(50*time.Millisecond, tabtest.Tool("foo", `{"type":"object"}`))
		for range 9 {
			time.Sleep(5 * time.Millisecond)
			f.ListChanged()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := len(a.notes("notifications/tools/list_changed")); n < 1 || n > 2 {
			t.Errorf("%d notifications", n)
		}
		names, _ := a.tools()
		if !slices.Contains(names, "foo") {
			t.Errorf("foo is not listed: %q", names)
		}
		// The same list again is no change.
		before := len(a.notes("notifications/tools/list_changed"))
		for range 10 {
			f.ListChanged()
			time.Sleep(time.Second)
		}
		// What a tab added stays after it has gone, so that the list changes as rarely as it can.
		f.Drop()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := len(a.notes("notifications/tools/list_changed")); n != before {
			t.Errorf("%d notifications for a list that did not change", n-before)
		}
		if r := a.call("foo", ""); !r.IsError || !strings.Contains(r.text(), "no Colab tab") {
			t.Errorf("foo without its tab: %+v", r)
		}
		// A tab without it takes it off the list, once.
		a.connect(tabtest.Knobs{})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if names, _ := a.tools(); slices.Contains(names, "foo") {
			t.Errorf("foo is listed though the tab lacks it: %q", names)
		}
	})
}

// C2: never before initialized, advertised since it may be sent.
func TestNothingIsToldBeforeInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, bridge.Options{})
		a.connect(tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("foo", "")}})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if all := a.got(func(frame) bool { return true }); len(all) != 0 {
			t.Errorf("the server spoke first: %s", all[0].raw)
		}
		a.initialize()
		init, _ := a.answer("1")
		if !strings.Contains(string(init.Result), `"listChanged":true`) {
			t.Errorf("not advertised: %s", init.Result)
		}
		if names, _ := a.tools(); !slices.Contains(names, "foo") {
			t.Errorf("foo is not in the first list: %q", names)
		}
	})
}

// C3
func TestToolsOfTheTabAreReachable(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		f, _ := a.connect(tabtest.Knobs{ExtraTools: []json.RawMessage{
			tabtest.Tool("clear_outputs", `{"type":"object","properties":{"cellId":{"type":"string"}},"required":["cellId"]}`),
			tabtest.Tool("Odd-Name", `{"type":"object","properties":{"n":{"type":"integer"}}}`),
			tabtest.Tool("run_code", `{"type":"object","properties":{"theirs":{"type":"string"}}}`),
		}})
		type listed struct {
			Tools []struct {
				Name        string
				Description string
				InputSchema json.RawMessage `json:"input_schema"`
			}
		}
		list := object[listed](t, a.call("list_colab_tools", ""))
		if len(list.Tools) != 10 || list.Tools[7].Name != "clear_outputs" || !strings.Contains(string(list.Tools[7].InputSchema), `"cellId"`) {
			t.Errorf("list_colab_tools: %+v", list)
		}
		for args, want := range map[string]string{
			`{"name":"clear_outputs","arguments":{"cellId":"a<b"}}`:                           `{"cellId":"a<b"}`,
			`{"name":"clear_outputs","arguments":"{\"cellId\":\"x\"}"}`:                       `{"cellId":"x"}`,
			`{"name":"clear_outputs","arguments":{"cellId":"x","wait_for_previous":true}}`:    `{"cellId":"x"}`,
			`{"name":"Odd-Name","arguments":{"n":9007199254740993},"wait_for_previous":true}`: `{"n":9007199254740993}`,
		} {
			if r := a.call("call_colab_tool", args); r.IsError || r.text() != want {
				t.Errorf("%s: %+v, want %s", args, r, want)
			}
		}
		if r := a.call("clear_outputs", `{"cellId":"direct"}`); r.IsError || r.text() != `{"cellId":"direct"}` {
			t.Errorf("directly: %+v", r)
		}
		if r := a.call("call_colab_tool", `{"name":"get_cells"}`); r.IsError || !strings.Contains(r.text(), `"cells"`) {
			t.Errorf("one of the seven: %+v", r)
		}
		if m := f.Calls("get_cells"); len(m) != 1 || m[0].Args != nil {
			t.Errorf("omitted arguments came as %s", m[0].Args) // C15
		}
		// A wrong name lists the live ones; our composites are refused there, and never shadowed.
		if r := a.call("call_colab_tool", `{"name":"clear_output"}`); !r.IsError || !strings.Contains(r.text(), "clear_outputs") || !strings.Contains(r.text(), "get_cells") {
			t.Errorf("a wrong name: %+v", r)
		}
		if r := a.call("call_colab_tool", `{"name":"run_code","arguments":{"theirs":"x"}}`); !r.IsError || !strings.Contains(r.text(), "call it directly") {
			t.Errorf("a composite of ours: %+v", r)
		}
		if r := a.call("run_code", `{"text":"ours"}`); r.text() != `{"text":"ours"}` {
			t.Errorf("run_code is shadowed: %+v", r)
		}
		if n := len(f.Calls("run_code")); n != 0 {
			t.Errorf("run_code reached the tab %d times", n)
		}
	})
}

// C4: the tab's own words, results in any envelope.
func TestResultsOfTheTabPass(t *testing.T) {
	for name, k := range map[string]tabtest.Knobs{"both": {}, "text": {Options: textOnly}, "structured": {Options: structuredOnly}} {
		t.Run(name, func(t *testing.T) {
			withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
				a.connect(k)
				r := a.call("add_text_cell", `{"content":"a<b"}`)
				if hasText, hasStructure := strings.Contains(r.text(), "newCellId"), strings.Contains(string(r.StructuredContent), "newCellId"); r.IsError ||
					hasText != (name != "structured") || hasStructure != (name != "text") {
					t.Errorf("%+v", r)
				}
			})
		})
	}
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		f, _ := a.connect(tabtest.Knobs{Fail: map[string]string{"move_cell": "No cell was found with ID 'x'"}, Swallow: []string{"delete_cell"}})
		if r := a.call("move_cell", `{"cellId":"x","cellIndex":0}`); !r.IsError || r.text() != "No cell was found with ID 'x'" {
			t.Errorf("isError: %+v", r)
		}
		id := a.start("delete_cell", `{"cellId":"x"}`, "")
		f.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"No cell was found"}}`, f.Calls("delete_cell")[0].ID))
		if r := a.result(id); !r.IsError || !strings.Contains(r.text(), "No cell was found") {
			t.Errorf("a JSON-RPC error: %+v", r)
		}
	})
}

// C4, design idea 10: the live schema is the one that is listed.
func TestLiveSchemaIsListed(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		_, ours := a.tools()
		newer := `{"type":"object","properties":{"cellId":{"type":"string"},"force":{"type":"boolean"}},"required":["cellId"]}`
		f, _ := a.connect(tabtest.Knobs{WithoutTools: []string{"delete_cell"}, ExtraTools: []json.RawMessage{tabtest.Tool("delete_cell", newer)},
			Answer: map[string]string{"delete_cell": `{"content":[]}`}})
		time.Sleep(time.Second)
		_, defs := a.tools()
		if !strings.Contains(string(defs["delete_cell"]), `"force"`) {
			t.Errorf("delete_cell is listed as %s", defs["delete_cell"])
		}
		if n := len(a.notes("notifications/tools/list_changed")); n != 1 {
			t.Errorf("%d notifications", n)
		}
		a.call("delete_cell", `{"cellId":"x","force":"true"}`)
		if m := f.Calls("delete_cell"); len(m) != 1 || string(m[0].Args) != `{"cellId":"x","force":true}` {
			t.Errorf("the tab got %v", m)
		}
		f.Drop()
		a.connect(tabtest.Knobs{})
		time.Sleep(time.Second)
		if _, defs := a.tools(); !reflect.DeepEqual(defs, ours) {
			t.Errorf("with a tab as captured delete_cell is listed as %s", defs["delete_cell"])
		}
	})
}

// Design idea 10: a missing tool disables what depends on it, with a clear word.
func TestMissingToolIsSaid(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		a.connect(tabtest.Knobs{WithoutTools: []string{"move_cell"}})
		if r := a.call("move_cell", `{"cellId":"x","cellIndex":0}`); !r.IsError || !strings.Contains(r.text(), "no tool move_cell") || !strings.Contains(r.text(), "delete_cell") {
			t.Errorf("%+v", r)
		}
		if names, _ := a.tools(); !slices.Contains(names, "move_cell") {
			t.Error("move_cell is no longer listed") // C1
		}
		type status struct {
			Tab struct {
				Missing []string `json:"missing_tools"`
			}
		}
		if s := object[status](t, a.call("colab_connection_status", "")); !slices.Equal(s.Tab.Missing, []string{"move_cell"}) {
			t.Errorf("status: %+v", s)
		}
		if r := a.call("get_cells", ""); r.IsError {
			t.Errorf("what does not depend on it: %+v", r)
		}
	})
}

// C6, C7: what is listed is plain, whatever the tab lists.
func TestListedToolsArePlain(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		var odd []json.RawMessage
		for name, schema := range oddSchemas {
			if json.Valid([]byte(schema)) || schema == "" {
				odd = append(odd, tabtest.Tool("odd_"+strings.NewReplacer(" ", "_", "?", "_q").Replace(strings.ToLower(name)), schema))
			}
		}
		odd = append(odd, tabtest.Tool("Bad Name", `{}`), tabtest.Tool(strings.Repeat("x", 41), `{}`), tabtest.Tool("p.q", `{}`))
		a.connect(tabtest.Knobs{ExtraTools: odd})
		time.Sleep(time.Second)
		names, defs := a.tools()
		if len(names) != 12+len(odd)-3 {
			t.Errorf("%d tools are listed: %q", len(names), names)
		}
		for name, raw := range defs {
			var def struct {
				Description  string
				InputSchema  json.RawMessage
				OutputSchema json.RawMessage
				Annotations  *struct {
					Title                                         string
					ReadOnlyHint, DestructiveHint, IdempotentHint *bool
				}
			}
			if err := json.Unmarshal(raw, &def); err != nil {
				t.Fatal(err)
			}
			plain(t, name, def.InputSchema)
			if !regexp.MustCompile(`^[a-z0-9_]{1,40}$`).MatchString(name) {
				t.Errorf("the name %q", name)
			}
			if def.OutputSchema != nil || def.Description == "" {
				t.Errorf("%s", raw)
			}
			if name != "run_code" && (def.Annotations == nil || def.Annotations.Title == "" || def.Annotations.DestructiveHint == nil) {
				t.Errorf("%s has the annotations %+v", name, def.Annotations)
			}
			// Whatever its schema, it can be called.
			if strings.HasPrefix(name, "odd_") && !strings.Contains(string(def.InputSchema), "required") {
				if r := a.call(name, ""); r.IsError {
					t.Errorf("%s: %+v", name, r)
				}
			}
		}
	})
}

// C15, C8: Gemini's argument in every call; other unknown ones are refused by name.
func TestExtraArgumentIsDroppedFromEveryTool(t *testing.T) {
	withAgent(t, bridge.Options{UITimeout: time.Second}, func(t *testing.T, a *agent) {
		f, _ := a.connect(tabtest.Knobs{})
		names, _ := a.tools()
		for _, name := range names {
			if r := a.call(name, `{"wait_for_previous":true}`); strings.Contains(r.text(), "wait_for_previous") {
				t.Errorf("%s: %s", name, r.text())
			}
			if r := a.call(name, `{"wait_for_next":true}`); !r.IsError || !strings.Contains(r.text(), `"wait_for_next"`) || r.StructuredContent != nil {
				t.Errorf("%s took an unknown argument: %+v", name, r)
			}
		}
		for _, m := range f.Received() {
			if strings.Contains(string(m.Raw), "wait_for") {
				t.Errorf("the tab got %s", m.Raw)
			}
		}
	})
}

// L3: a read is asked once more after a re-open, an edit never.
func TestOnlyReadsAreAskedAgain(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		f := a.openWith(bookA)
		f.Set(func(k *tabtest.Knobs) { k.Swallow = []string{"get_cells", "update_cell"} })
		read, edit := a.start("get_cells", "", ""), a.start("update_cell", `{"cellId":"x","content":"y"}`, "")
		a.accepts(2*time.Second, tabtest.Knobs{})
		f.Drop()
		if r := a.result(edit); !r.IsError || !strings.Contains(r.text(), "was sent") {
			t.Errorf("the edit: %+v", r)
		}
		if r := a.result(read); r.IsError || !strings.Contains(r.text(), `"cells"`) {
			t.Errorf("the read: %+v", r)
		}
		a.wants(bookA, 2)
	})
}

// L8: five reads while dropped: one opening, five answers.
func TestFiveReadsShareOneReopening(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		a.openWith(bookA).Drop()
		a.accepts(3*time.Second, tabtest.Knobs{})
		var ids []string
		for range 5 {
			ids = append(ids, a.start("get_cells", "", ""))
		}
		for _, id := range ids {
			if r := a.result(id); r.IsError {
				t.Errorf("%+v", r)
			}
		}
		a.wants(bookA, 2)
	})
}

// C13: the agent's cancel reaches the tab for what runs no code, and not for what does.
func TestAgentsCancel(t *testing.T) {
	withAgent(t, bridge.Options{}, func(t *testing.T, a *agent) {
		f, tab := a.connect(tabtest.Knobs{Swallow: []string{"get_cells"}})
		cell := addCell(t, tab, "sleep 1m\nresult kept")
		read, run := a.start("get_cells", "", ""), a.start("run_code_cell", fmt.Sprintf(`{"cellId":%q}`, cell), "")
		for _, id := range []string{read, run, "999", `"nobody"`} {
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
			synctest.Wait()
		}
		var told []string
		for _, m := range f.Received() {
			if m.Method == "notifications/cancelled" {
				told = append(told, string(m.Raw))
			}
		}
		if len(told) != 1 || !strings.Contains(told[0], fmt.Sprintf(`"requestId":%s,`, f.Calls("get_cells")[0].ID)) {
			t.Errorf("the tab was told %q", told)
		}
		if _, _, held := a.Gate().Holder(); !held || f.RunsInFlight() != 1 {
			t.Error("the turn was given up before the tab answered")
		}
		f.Set(func(k *tabtest.Knobs) { k.Swallow = nil })
		if r := a.call("get_cells", ""); r.IsError {
			t.Errorf("a read meanwhile: %+v", r)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, _, held := a.Gate().Holder(); held || f.RunsInFlight() != 0 {
			t.Error("the turn is held after the tab answered")
		}
	})
}
