package bridge

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Param is one parameter of a tool, in terms that every client understands.
type Param struct {
	Name        string
	Type        string // string, integer, number, boolean, array or object
	Description string
	Required    bool
	Enum        []string
	Items       string // type of an array's items
	AnyJSON     bool   // declared otherwise than this: passed on as it is
}

// Params are a tool's parameters in the order they are shown.
type Params []Param

// Schema is the plain JSON schema of the parameters: one object, each property
// with a type and a description, arrays with items, nothing else. Clients drop
// or refuse a tool whose schema has more.
func (ps Params) Schema() json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	var required []string
	for i, p := range ps {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s:{"type":%s,"description":%s`, quote(p.Name), quote(p.Type), quote(p.Description))
		if p.Type == "array" {
			fmt.Fprintf(&b, `,"items":{"type":%s}`, quote(p.Items))
		}
		if len(p.Enum) > 0 {
			fmt.Fprintf(&b, `,"enum":%s`, quote(p.Enum))
		}
		b.WriteByte('}')
		if p.Required {
			required = append(required, p.Name)
		}
	}
	b.WriteByte('}')
	if len(required) > 0 {
		fmt.Fprintf(&b, `,"required":%s`, quote(required))
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("bridge: " + err.Error())
	}
	return string(b)
}

// Find returns the parameter of that name.
func (ps Params) Find(name string) (Param, bool) {
	i := slices.IndexFunc(ps, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return ps[i], true
}

func (ps Params) names() string {
	list := make([]string, len(ps))
	for i, p := range ps {
		list[i] = p.Name
	}
	return join(list)
}

// ParamsOf reads the parameters off a struct: the json tag names them, the doc
// tag describes them, omitempty makes them optional. It panics on a type that
// has no plain schema: a programmer's mistake.
func ParamsOf(t reflect.Type) Params {
	var ps Params
	for f := range t.Fields() {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := Param{Name: name, Description: f.Tag.Get("doc"), Required: rest != "omitempty"}
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		p.Type = plainType(ft)
		if p.Type == "array" {
			p.Items = plainType(ft.Elem())
		}
		if p.Type == "" || p.Description == "" {
			panic(fmt.Sprintf("bridge: parameter %s of %s has no plain type or no doc", f.Name, t))
		}
		ps = append(ps, p)
	}
	return ps
}

func plainType(t reflect.Type) string {
	if t == reflect.TypeFor[json.RawMessage]() {
		return "object"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	}
	return ""
}

// ParseParams makes a tab's input schema plain, whatever is in it: a property
// that is more than a plain type is described and passed on as it is.
func ParseParams(schema json.RawMessage) Params {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if lenient(schema, &s) != nil {
		return nil
	}
	properties, _, err := splitArguments("", s.Properties)
	if err != nil {
		return nil
	}
	var ps Params
	for _, a := range properties {
		p := parseParam(a.value)
		p.Name, p.Required = a.name, slices.Contains(s.Required, a.name)
		ps = append(ps, p)
	}
	return ps
}

// undescribed reports whether a schema does not say which properties there
// are: such a tool takes what it is given.
func undescribed(schema json.RawMessage) bool {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		More       json.RawMessage            `json:"additionalProperties"`
	}
	return lenient(schema, &s) != nil || s.Properties == nil && string(s.More) != "false"
}

func parseParam(raw json.RawMessage) Param {
	var s struct {
		Type        string                `json:"type"`
		Description string                `json:"description"`
		Enum        []string              `json:"enum"`
		Items       struct{ Type string } `json:"items"`
	}
	types := []string{"string", "integer", "number", "boolean", "array", "object"}
	p := Param{}
	if json.Unmarshal(raw, &s) != nil || !slices.Contains(types, s.Type) {
		s.Type, p.AnyJSON = "string", true
	}
	p.Type, p.Description, p.Enum, p.Items = s.Type, s.Description, s.Enum, s.Items.Type
	if p.Type == "array" && !slices.Contains(types, p.Items) {
		p.Items = "string"
	}
	switch {
	case p.AnyJSON && p.Description == "":
		p.Description = "A JSON value, written as text."
	case p.Description == "":
		p.Description = "The tab gives no description."
	}
	return p
}
