package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"colab-mcp/bridge/localtab/tabtest"
)

var update = flag.Bool("update", false, "write the golden files of TestGolden instead of comparing with them")

const goldenDir = "testdata/tools"

// listed is a tool as a client sees it.
type listed struct {
	Name, Title, Description string
	Schema                   map[string]any  `json:"inputSchema"`
	Output                   json.RawMessage `json:"outputSchema"`
	Annotations              struct {
		Title                         *string
		ReadOnlyHint, DestructiveHint *bool
		IdempotentHint, OpenWorldHint *bool
	}
	Raw json.RawMessage `json:"-"`
}

// listTools returns what tools/list answers, by name.
func (a *agent) listTools() map[string]listed {
	a.t.Helper()
	var list struct {
		Tools  []json.RawMessage
		Cursor string `json:"nextCursor"`
	}
	if m := a.send("tools/list", struct{}{}).wait(); json.Unmarshal(m.Result, &list) != nil || list.Cursor != "" {
		a.t.Fatalf("tools/list: not one page of tools: %.300s%s", m.Result, m.Error)
	}
	tools := map[string]listed{}
	for _, raw := range list.Tools {
		l := listed{Raw: raw}
		if err := json.Unmarshal(raw, &l); err != nil {
			a.t.Fatalf("%v: %s", err, raw)
		}
		if _, twice := tools[l.Name]; twice {
			a.t.Errorf("%s is listed twice", l.Name)
		}
		tools[l.Name] = l
	}
	return tools
}

// TestGolden compares each tool as listed with testdata/tools/NAME.json, where
// a change to what agents see is reviewed.
func TestGolden(t *testing.T) {
	tools := startAgent(t, "--browser", "none").listTools()
	if *update {
		if err := os.RemoveAll(goldenDir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(goldenDir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const cure = "look at the change, then: go test ./cmd/colab-mcp -run TestGolden -update"
	for name, tool := range tools {
		file := filepath.Join(goldenDir, name+".json")
		got := indented(t, tool.Raw)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("tool %s has no golden file (%v); %s", name, err, cure)
		} else if diff := cmp.Diff(string(bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))), string(got)); diff != "" {
			t.Errorf("tool %s is not what %s says (-want +got); %s\n%s", name, file, cure, diff)
		}
	}
	files, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); !ok || tools[name].Name == "" {
			t.Errorf("%s/%s belongs to no tool of the list; %s", goldenDir, f.Name(), cure)
		}
	}
}

func indented(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// C6, C7: every client takes every tool.
func TestToolsArePlain(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9_]{1,40}$`)
	for _, tool := range startAgent(t, "--browser", "none").listTools() {
		t.Run(tool.Name, func(t *testing.T) {
			if !name.MatchString(tool.Name) {
				t.Errorf("the name does not match %s", name)
			}
			if n := len([]rune(tool.Description)); n >= 1000 || !strings.HasSuffix(tool.Description, ".") {
				t.Errorf("the description has %d characters; wanted whole sentences, and fewer than 1,000", n)
			}
			if a := tool.Annotations; tool.Title == "" || a.Title == nil || *a.Title != tool.Title {
				t.Error("title and annotations.title must be set and the same")
			} else if a.ReadOnlyHint == nil || a.DestructiveHint == nil || a.IdempotentHint == nil || a.OpenWorldHint == nil {
				t.Error("an annotation is missing; use hints or Hints of package bridge")
			} else if *a.ReadOnlyHint && *a.DestructiveHint {
				t.Error("a tool that only reads destroys nothing")
			}
			if tool.Output != nil {
				t.Error("an outputSchema makes clients hide text and images")
			}
			if tool.Schema["type"] != "object" {
				t.Errorf("inputSchema is of type %v; wanted object", tool.Schema["type"])
			}
			if _, ok := tool.Schema["properties"].(map[string]any); !ok {
				t.Error("inputSchema has no properties; a tool without parameters has an empty object")
			}
			for _, fault := range lintSchema("inputSchema", tool.Schema) {
				t.Error(fault)
			}
		})
	}
}

// lintSchema returns what some client would not understand of a schema.
func lintSchema(path string, schema map[string]any) (faults []string) {
	fault := func(format string, v ...any) { faults = append(faults, path+": "+fmt.Sprintf(format, v...)) }
	kind, ok := schema["type"].(string)
	if !ok {
		fault("type is %v; wanted one name", schema["type"])
	}
	for _, word := range []string{"$ref", "$defs", "definitions", "anyOf", "oneOf", "allOf", "not", "if", "patternProperties"} {
		if _, ok := schema[word]; ok {
			fault("%s is not understood by every client", word)
		}
	}
	if kind == "array" {
		items, ok := schema["items"].(map[string]any)
		if !ok {
			fault("an array needs items, a schema")
			return faults
		}
		faults = append(faults, lintSchema(path+".items", items)...)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, v := range properties {
		sub, _ := v.(map[string]any)
		if text, _ := sub["description"].(string); text == "" {
			fault("%s has no description", name)
		}
		faults = append(faults, lintSchema(path+"."+name, sub)...)
	}
	required, _ := schema["required"].([]any)
	for _, r := range required {
		if name, _ := r.(string); properties[name] == nil {
			fault("%v is required and not a property", r)
		}
	}
	return faults
}

// The lint itself finds each fault that it is there for.
func TestLintFindsOddSchemas(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, "a has no description"},
		{`{"type":"object","properties":{"a":{"description":"d"}}}`, "inputSchema.a: type is <nil>"},
		{`{"type":"object","properties":{"a":{"type":["string","null"],"description":"d"}}}`, "inputSchema.a: type is [string null]"},
		{`{"type":"object","properties":{"a":{"type":"array","description":"d"}}}`, "an array needs items"},
		{`{"type":"object","properties":{"a":{"type":"array","description":"d","items":{"$ref":"#"}}}}`, "$ref"},
		{`{"type":"object","anyOf":[]}`, "anyOf"},
		{`{"type":"object","properties":{},"required":["a"]}`, "a is required"},
	} {
		var schema map[string]any
		if err := json.Unmarshal([]byte(c.schema), &schema); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lintSchema("inputSchema", schema), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: wanted a fault with %q, got %q", c.schema, c.want, got)
		}
	}
}

// What the agent is told fits every client's prompt, and names tools that
// there are.
func TestInstructions(t *testing.T) {
	if n := len([]rune(instructions)); n >= 2000 {
		t.Errorf("instructions.md has %d characters; clients show the first 2,000", n)
	}
	tools := startAgent(t, "--browser", "none").listTools()
	for _, m := range regexp.MustCompile("`([a-z]+_[a-z_]+)`").FindAllStringSubmatch(instructions, -1) {
		word := m[1]
		if tools[word].Name == "" && !isParameter(tools, word) && !fields[word] {
			t.Errorf("instructions.md speaks of %s, which is no tool and no parameter", word)
		}
	}
}

// fields are the words of instructions.md that stand in answers.
var fields = map[string]bool{"job_id": true, "output_ref": true, "outcome_unknown": true, "manual_url": true}

func isParameter(tools map[string]listed, word string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(tools)), func(l listed) bool {
		properties, _ := l.Schema["properties"].(map[string]any)
		return properties[word] != nil
	})
}

// C1: the list is the same before, during and after a connection.
func TestListStaysTheSame(t *testing.T) {
	browser, links := handedOver(t)
	a := startAgent(t, "--browser", browser, "--auto-reopen=false")
	raw := func() map[string]string {
		m := map[string]string{}
		for name, tool := range a.listTools() {
			m[name] = string(tool.Raw)
		}
		return m
	}
	before := raw()
	opening := a.begin("open_colab_browser_connection", nil)
	tab := tabtest.Dial(t, nil, <-links, tabtest.Knobs{})
	var opened struct{ State string }
	if opening.answer().into(&opened); opened.State != "ready" {
		t.Fatalf("state %q; wanted ready", opened.State)
	}
	if diff := cmp.Diff(before, raw()); diff != "" {
		t.Errorf("a connected tab changes the list (-before +after):\n%s", diff)
	}
	tab.Drop()
	var status struct{ Connected bool }
	for deadline := time.Now().Add(patience); ; {
		if a.call("colab_connection_status", nil).into(&status); !status.Connected {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the drop was not noticed")
		}
	}
	if diff := cmp.Diff(before, raw()); diff != "" {
		t.Errorf("a dropped tab changes the list (-before +after):\n%s", diff)
	}
}
