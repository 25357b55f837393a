package bridge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// sample has a parameter of each kind.
type sample struct {
	Code   string          `json:"code" doc:"Code."`
	IDs    []string        `json:"cell_ids,omitempty" doc:"Cells."`
	Start  *int            `json:"start,omitempty" doc:"First."`
	Wait   float64         `json:"wait_s,omitempty" doc:"Seconds."`
	Stop   *bool           `json:"stop,omitempty" doc:"Stop."`
	Title  string          `json:"title,omitempty" doc:"Title."`
	Things json.RawMessage `json:"things,omitempty" doc:"Object."`
}

var params = bridge.ParamsOf(reflect.TypeFor[sample]())

// C5, C15, C9
func TestArgumentsAreNormalized(t *testing.T) {
	for in, want := range map[string]string{
		// in order: the very bytes
		`{"code":"1"}`: `{"code":"1"}`,
		`{ "code" : "a<b \u0026\u0026 c>d", "start":3 }`:       `{ "code" : "a<b \u0026\u0026 c>d", "start":3 }`,
		`{"code":"1","start":9007199254740993,"wait_s":1e400}`: `{"code":"1","start":9007199254740993,"wait_s":1e400}`,
		`{"code":"1","things":{"a":[1e400,{"b":null}]}}`:       `{"code":"1","things":{"a":[1e400,{"b":null}]}}`,
		// JSON in a string, where no string is declared
		`{"code":"1","cell_ids":"[\"a\",\"b\"]"}`:   `{"code":"1","cell_ids":["a","b"]}`,
		`{"code":"1","start":"3"}`:                  `{"code":"1","start":3}`,
		`{"code":"1","start":" 9007199254740993 "}`: `{"code":"1","start":9007199254740993}`,
		`{"code":"1","wait_s":"2.50"}`:              `{"code":"1","wait_s":2.50}`,
		`{"code":"1","stop":"false"}`:               `{"code":"1","stop":false}`,
		`{"code":"1","things":"{\"n\": 1e400}"}`:    `{"code":"1","things":{"n": 1e400}}`,
		`"{\"code\":\"1\"}"`:                        `{"code":"1"}`,
		// a declared string is never looked into
		`{"code":"[1, 2]"}`:          `{"code":"[1, 2]"}`,
		`{"code":"\"x\""}`:           `{"code":"\"x\""}`,
		`{"code":"null"}`:            `{"code":"null"}`,
		`{"code":"42","title":"{}"}`: `{"code":"42","title":"{}"}`,
		`{"code":""}`:                `{"code":""}`,
		// absent
		`{"code":"1","start":null,"title":"","cell_ids":"","stop":null,"things":null,"wait_s":""}`: `{"code":"1"}`,
		// whole numbers that look otherwise
		`{"code":"1","start":3.0}`:   `{"code":"1","start":3}`,
		`{"code":"1","start":-0.00}`: `{"code":"1","start":-0}`,
		// Gemini's
		`{"wait_for_previous":true,"code":"1"}`:          `{"code":"1"}`,
		`{"code":"1","wait_for_previous":{"x":"weird"}}`: `{"code":"1"}`,
		// a repeated name counts once, as for every decoder
		`{"code":"1","code":"2"}`: `{"code":"2"}`,
	} {
		got, err := params.Normalize("t", json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("%s\n  became %s, %v\n  want   %s", in, got, err, want)
		}
	}
}

// C5, C8, C15: what is wrong is named.
func TestWrongArgumentsAreNamed(t *testing.T) {
	for in, want := range map[string][]string{
		`{"code":"1","start":"two"}`:        {"start", "integer", `"two"`},
		`{"code":"1","start":1.5}`:          {"start", "integer"},
		`{"code":"1","start":1e3}`:          {"start", "integer"},
		`{"code":"1","start":"\"3\""}`:      {"start", "integer"},
		`{"code":"1","start":[1]}`:          {"start", "integer"},
		`{"code":"1","stop":"yes"}`:         {"stop", "boolean"},
		`{"code":"1","stop":1}`:             {"stop", "boolean"},
		`{"code":"1","cell_ids":"a"}`:       {"cell_ids", "array of strings"},
		`{"code":"1","cell_ids":["a",1]}`:   {"cell_ids", "array of strings"},
		`{"code":"1","cell_ids":{"0":"a"}}`: {"cell_ids", "array of strings"},
		`{"code":"1","things":[1]}`:         {"things", "object"},
		`{"code":"1","wait_s":"soon"}`:      {"wait_s", "number"},
		`{"code":1}`:                        {"code", "string"},
		`{"code":null}`:                     {"code", "string"},
		`{"code":["a"]}`:                    {"code", "string"},
		`{}`:                                {"code", "missing"},
		`{"start":1}`:                       {"code", "missing"},
		`{"code":"1","cellIds":["a"]}`:      {"cellIds", "cell_ids", "wait_s"},
		`{"Code":"1"}`:                      {"Code", "code"},
		`[1]`:                               {"object"},
		`42`:                                {"object"},
		`"hello"`:                           {"object"},
		`{"code":"` + strings.Repeat("x", 5000) + `","start":"` + strings.Repeat("y", 5000) + `"}`: {"start"},
	} {
		got, err := params.Normalize("the_tool", json.RawMessage(in))
		var wrong *bridge.ArgumentError
		if !errors.As(err, &wrong) || wrong.Tool != "the_tool" {
			t.Errorf("%.80s became %.80s, %v", in, got, err)
			continue
		}
		if len(err.Error()) > 500 {
			t.Errorf("%.80s: %d characters of words", in, len(err.Error()))
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%.80s: %q lacks %q", in, err, w)
			}
		}
	}
}

// C15: omitted stays omitted.
func TestOmittedArgumentsStayOmitted(t *testing.T) {
	none := bridge.Params{{Name: "start", Type: "integer"}}
	for _, in := range []json.RawMessage{nil, {}, json.RawMessage(`null`)} {
		got, err := none.Normalize("t", in)
		if err != nil || len(got) > 0 && string(got) != "{}" || in == nil && got != nil {
			t.Errorf("%q became %q, %v", in, got, err)
		}
	}
}

// anyJSON draws a JSON text.
func anyJSON(depth int) *rapid.Generator[string] {
	leaves := []*rapid.Generator[string]{
		rapid.SampledFrom([]string{"null", "true", "false", "0", "-1", "9007199254740993", "1e400", "2.50", `""`, `"[1, 2]"`, `"3"`, `"\u00e9<&>"`}),
		rapid.Map(rapid.String(), func(s string) string { b, _ := json.Marshal(s); return string(b) }),
	}
	if depth > 0 {
		leaves = append(leaves,
			rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[string] { return anyJSON(depth - 1) }), 0, 3), func(l []string) string {
				return "[" + strings.Join(l, ",") + "]"
			}),
			rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-z_]{1,8}`), rapid.Deferred(func() *rapid.Generator[string] { return anyJSON(depth - 1) }), 0, 3), func(m map[string]string) string {
				var l []string
				for k, v := range m {
					l = append(l, fmt.Sprintf("%q:%s", k, v))
				}
				return "{" + strings.Join(l, ",") + "}"
			}))
	}
	return rapid.OneOf(leaves...)
}

// C5, C9: whatever comes, the outcome is an error of ours or valid arguments of the declared types, in which declared strings and
// numbers are the bytes that came; and normalizing twice changes nothing.
func TestNormalizeProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var list []string
		sent := map[string]string{}
		for _, name := range []string{"code", "cell_ids", "start", "wait_s", "stop", "title", "things", "wait_for_previous"} {
			if rapid.Bool().Draw(rt, "has "+name) {
				sent[name] = anyJSON(2).Draw(rt, name)
				list = append(list, fmt.Sprintf("%q:%s", name, sent[name]))
			}
		}
		in := "{" + strings.Join(list, ",") + "}"
		before := bytes.Clone([]byte(in))
		got, err := params.Normalize("t", before)
		if string(before) != in {
			rt.Fatalf("%s was changed in place to %s", in, before)
		}
		if err != nil {
			var wrong *bridge.ArgumentError
			if !errors.As(err, &wrong) {
				rt.Fatalf("%s: %v", in, err)
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(got, &members); err != nil {
			rt.Fatalf("%s became %s", in, got)
		}
		for name, v := range members {
			p, ok := params.Find(name)
			if !ok {
				rt.Fatalf("%s kept %s", in, name)
			}
			if p.Type == "string" && string(v) != sent[name] {
				rt.Fatalf("%s: the string %s became %s", in, name, v)
			}
			first := map[string]string{"string": `"`, "array": "[", "object": "{", "boolean": "tf", "integer": "-0123456789", "number": "-0123456789"}[p.Type]
			if !strings.Contains(first, string(v[:1])) {
				rt.Fatalf("%s: %s is no %s: %s", in, name, p.Type, v)
			}
		}
		again, err := params.Normalize("t", got)
		if err != nil || string(again) != string(got) {
			rt.Fatalf("%s became %s and then %s, %v", in, got, again, err)
		}
	})
}

// plain checks the rules that every client's schema reader takes.
func plain(t *testing.T, name string, schema json.RawMessage) {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatalf("%s: %v in %s", name, err, schema)
	}
	if s["type"] != "object" {
		t.Errorf("%s is no object: %s", name, schema)
	}
	for key := range s {
		if key != "type" && key != "properties" && key != "required" {
			t.Errorf("%s has %s", name, key)
		}
	}
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		t.Fatalf("%s has no properties: %s", name, schema)
	}
	for p, v := range properties {
		prop, ok := v.(map[string]any)
		kind, _ := prop["type"].(string)
		words, _ := prop["description"].(string)
		if !ok || !regexp.MustCompile("^(string|integer|number|boolean|array|object)$").MatchString(kind) || words == "" {
			t.Errorf("%s: property %s is %v", name, p, v)
		}
		for key := range prop {
			if key != "type" && key != "description" && key != "enum" && key != "items" {
				t.Errorf("%s: property %s has %s", name, p, key)
			}
		}
		if items, has := prop["items"].(map[string]any); (kind == "array") != has || has && (len(items) != 1 || reflect.TypeOf(items["type"]).Kind() != reflect.String) {
			t.Errorf("%s: property %s has items %v", name, p, prop["items"])
		}
	}
	if required, has := s["required"]; has {
		for _, r := range required.([]any) {
			if _, ok := properties[r.(string)]; !ok {
				t.Errorf("%s requires %s, which it has not", name, r)
			}
		}
	}
}

var oddSchemas = map[string]string{
	"none": "", "null": "null", "true": "true", "list": "[]", "string": `"x"`, "empty": "{}", "bare": `{"type":"object"}`,
	"type list": `{"type":["object","null"],"properties":{"a":{"type":["string","null"]}}}`,
	"anyOf":     `{"anyOf":[{"type":"object"}],"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]},"b":{"type":"integer"}}}`,
	"ref":       `{"type":"object","properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"type":"string"}},"$schema":"x"}`,
	"nested":    `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"oneOf":[]}}},"c":{"type":"array","items":{"anyOf":[]}},"d":{"type":"array"},"e":{"type":"array","items":[{"type":"string"}]}}}`,
	"booleans":  `{"type":"object","properties":{"a":true,"b":false,"c":null,"d":7}}`,
	"odd words": `{"type":"object","properties":{"a":{"type":"string","description":7},"b":{"type":"string","enum":[1,"x",null]},"c":{"type":"integer","enum":[1,2]}}}`,
	"required":  `{"type":"object","properties":{"a":{"type":"string"}},"required":["a","ghost"]}`,
	"required?": `{"type":"object","properties":{"a":{"type":"string"}},"required":true}`,
	"names":     `{"type":"object","properties":{"":{"type":"string"},"a<b>":{"type":"string"},"x y":{"type":"string"},"é":{"type":"string"}}}`,
	"cut":       `{"type":"object","properties":{`,
}

// C6
func TestSchemasAreMadePlain(t *testing.T) {
	for name, schema := range oddSchemas {
		plain(t, name, bridge.ParseParams(json.RawMessage(schema)).Schema())
	}
	plain(t, "ours", params.Schema())
	for _, tool := range bridge.Catalog() {
		ps := bridge.ParseParams(tool.InputSchema)
		plain(t, tool.Name, ps.Schema())
		for _, p := range ps {
			if p.Description == "" || p.Description == "The tab gives no description." {
				t.Errorf("%s: %s is not described", tool.Name, p.Name)
			}
		}
	}
}

// C4: the live schema wins, and what our list calls optional is filled in.
func TestArgumentsFollowTheLiveSchema(t *testing.T) {
	newer := `{"type":"object","properties":{"cellIndex":{"type":"integer"},"code":{"type":"string"},"kernel":{"type":"string"}},"required":["cellIndex","code"],"additionalProperties":false}`
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{})
		for in, want := range map[string]string{
			`{"code":"1"}`: `{"code":"1","cellIndex":9999999,"language":"python"}`,
			`{"code":"1","cellIndex":0,"language":"r"}`:         `{"code":"1","cellIndex":0,"language":"r"}`,
			`{"code":"a<b","cellIndex":"2","language":"julia"}`: `{"code":"a<b","cellIndex":2,"language":"julia"}`,
		} {
			if got, err := bridge.Arguments(tab, "add_code_cell", json.RawMessage(in)); err != nil || !sameJSON(got, want) {
				t.Errorf("%s became %s, %v", in, got, err)
			}
		}
		if got, err := bridge.Arguments(tab, "get_cells", nil); err != nil || got != nil {
			t.Errorf("omitted arguments became %q, %v", got, err)
		}
		var wrong *bridge.ArgumentError
		if _, err := bridge.Arguments(tab, "add_code_cell", json.RawMessage(`{"code":"1","language":"perl"}`)); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "python") {
			t.Errorf("language perl: %v", err)
		}
		if _, err := bridge.Arguments(tab, "add_code_cell", json.RawMessage(`{"code":"1","kernel":"x"}`)); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "kernel") {
			t.Errorf("unknown: %v", err)
		}
		var missing *bridge.MissingToolError
		if _, err := bridge.Arguments(tab, "clear_outputs", nil); !errors.As(err, &missing) || len(missing.Live) != 7 {
			t.Errorf("a tool it lacks: %v", err)
		}
	})
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{WithoutTools: []string{"add_code_cell"}, ExtraTools: []json.RawMessage{tabtest.Tool("add_code_cell", newer)}})
		if got, err := bridge.Arguments(tab, "add_code_cell", json.RawMessage(`{"code":"1","kernel":"x"}`)); err != nil || !sameJSON(got, `{"code":"1","kernel":"x","cellIndex":9999999}`) {
			t.Errorf("the newer schema: %s, %v", got, err)
		}
	})
}

// C6: what a schema does not say is no reason to refuse a call.
func TestToolsWithoutAReadableSchemaTakeAnything(t *testing.T) {
	for _, name := range []string{"none", "true", "list", "empty", "bare", "required?"} {
		inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
			_, tab := d.connect(tabtest.Knobs{ExtraTools: []json.RawMessage{tabtest.Tool("clear_outputs", oddSchemas[name])}})
			got, err := bridge.Arguments(tab, "clear_outputs", json.RawMessage(`{"a":"x","wait_for_previous":true}`))
			if err != nil || string(got) != `{"a":"x"}` {
				t.Errorf("schema %s: %s, %v", name, got, err)
			}
		})
	}
}

func sameJSON(a json.RawMessage, b string) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
