package localtab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxIndex is JavaScript's largest safe integer, the maximum in every index's schema.
const maxIndex = 1<<53 - 1

// A param is one parameter of a tool.
type param struct {
	name     string
	kind     kind
	required bool
	doc      string
}

type kind int

const (
	isString kind = iota
	isIndex
	isBool
	isLanguage
)

var languages = []string{"python", "r", "julia"}

func (p param) schema() string {
	doc := fmt.Sprintf(`"description":%q`, p.doc)
	switch p.kind {
	case isIndex:
		return fmt.Sprintf(`{"type":"integer","minimum":0,"maximum":%d,%s}`, maxIndex, doc)
	case isBool:
		return `{"type":"boolean",` + doc + `}`
	case isLanguage:
		return `{"type":"string","enum":["` + strings.Join(languages, `","`) + `"],` + doc + `}`
	default:
		return `{"type":"string",` + doc + `}`
	}
}

// arguments are checked: what is there has the right type.
type arguments map[string]any

func (a arguments) text(name string) string { s, _ := a[name].(string); return s }
func (a arguments) bool(name string) bool   { b, _ := a[name].(bool); return b }

// index returns the argument or, if it is absent, def. It is clamped to what fits an int.
func (a arguments) index(name string, def int64) int {
	f, ok := a[name].(float64)
	if !ok {
		f = float64(def)
	}
	return int(min(int64(f), int64(^uint(0)>>1)))
}

// parse checks raw as the page's validator (zod) does and words what is wrong in its way. long are the
// strings that were lifted out of it.
func (t *tool) parse(raw json.RawMessage, long literals) (arguments, error) {
	fail := func(what ...string) (arguments, error) {
		return nil, wireError("Invalid arguments for " + t.name + ": " + strings.Join(what, "; "))
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	var args arguments
	if err := json.Unmarshal(raw, &args); err != nil || args == nil {
		return fail("Expected object")
	}
	for name, v := range args {
		if s, ok := v.(string); ok {
			args[name] = long.text(s)
		}
	}
	var wrong []string
	for _, p := range t.params {
		v, ok := args[p.name]
		if !ok {
			if p.required {
				wrong = append(wrong, p.name+" Required (received undefined)")
			}
			continue
		}
		if s := p.check(v); s != "" {
			wrong = append(wrong, p.name+" "+s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !slices.ContainsFunc(t.params, func(p param) bool { return p.name == name }) {
			wrong = append(wrong, fmt.Sprintf("Unrecognized key(s) in object: '%s'", name))
		}
	}
	if wrong != nil {
		return fail(wrong...)
	}
	return args, nil
}

// check returns what is wrong with v, or "".
func (p param) check(v any) string {
	want := map[kind]string{isString: "string", isLanguage: "string", isIndex: "number", isBool: "boolean"}[p.kind]
	if got := typeName(v); got != want {
		return "Expected " + want + ", received " + got
	}
	switch p.kind {
	case isIndex:
		f := v.(float64)
		switch {
		case f < 0:
			return "Number must be greater than or equal to 0"
		case f > maxIndex:
			return "Number must be less than or equal to " + strconv.FormatInt(maxIndex, 10)
		case f != math.Trunc(f):
			return "Expected integer, received float"
		}
	case isLanguage:
		if !slices.Contains(languages, v.(string)) {
			return "Invalid enum value. Expected 'python' | 'r' | 'julia', received '" + v.(string) + "'"
		}
	}
	return ""
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	default:
		return "object"
	}
}
