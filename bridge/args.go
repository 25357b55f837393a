package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ArgumentError says which argument of a call is wrong and what was expected.
type ArgumentError struct {
	Tool    string
	Problem string
}

func (e *ArgumentError) Error() string { return e.Tool + ": " + e.Problem }

// extraArgument is added to every call by Gemini CLI and means nothing to us.
const extraArgument = "wait_for_previous"

type argument struct {
	name  string
	value json.RawMessage
}

// Normalize checks the arguments of a call against its parameters and puts
// right what clients get wrong: a value sent as a JSON-encoded string where
// something else is declared, null or "" for an optional one, Gemini's extra
// argument. A declared string is never looked into. Arguments that are in
// order are returned as the very bytes that came; omitted ones stay omitted.
//
// The error is a *[ArgumentError].
func (ps Params) Normalize(tool string, raw json.RawMessage) (json.RawMessage, error) {
	if string(raw) == "{}" && !slices.ContainsFunc(ps, func(p Param) bool { return p.Required }) {
		return raw, nil
	}
	list, changed, err := splitArguments(tool, raw)
	if err != nil {
		return nil, err
	}
	kept := make([]argument, 0, len(list))
	for _, a := range list {
		p, known := ps.Find(a.name)
		switch {
		case !known && a.name == extraArgument:
			changed = true
			continue
		case !known:
			return nil, &ArgumentError{tool, fmt.Sprintf("unknown argument %q; known: %s", a.name, ps.names())}
		case !p.Required && (string(a.value) == "null" || string(a.value) == `""`):
			changed = true
			continue
		}
		v, err := p.coerce(a.value)
		if err != nil {
			return nil, &ArgumentError{tool, err.Error()}
		}
		changed = changed || !bytes.Equal(v, a.value)
		kept = append(kept, argument{a.name, v})
	}
	for _, p := range ps {
		if p.Required && !slices.ContainsFunc(kept, func(a argument) bool { return a.name == p.Name }) {
			return nil, &ArgumentError{tool, fmt.Sprintf("%s is missing: %s", p.Name, p.Description)}
		}
	}
	if !changed {
		return raw, nil
	}
	return joinArguments(kept), nil
}

// withoutExtra is Normalize for a tool whose parameters are not known.
func withoutExtra(tool string, raw json.RawMessage) (json.RawMessage, error) {
	list, changed, err := splitArguments(tool, raw)
	if err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(slices.Clone(list), func(a argument) bool { return a.name == extraArgument })
	if !changed && len(kept) == len(list) {
		return raw, nil
	}
	return joinArguments(kept), nil
}

// splitArguments cuts an object into its members, in order. A repeated name
// counts once, with its last value.
func splitArguments(tool string, raw json.RawMessage) (list []argument, changed bool, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, len(raw) != 0, nil
	}
	var text string
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		raw, changed = json.RawMessage(strings.TrimSpace(text)), true
	}
	if !json.Valid(raw) || raw[0] != '{' {
		return nil, false, &ArgumentError{tool, "arguments must be a JSON object"}
	}
	s := scanner{b: bytes.Clone(raw), i: 1}
	err = s.members('}', 1, func(key []byte, from int) error {
		var name string
		if err := json.Unmarshal(key, &name); err != nil {
			return err
		}
		if err := s.value(1); err != nil {
			return err
		}
		a := argument{name, s.b[from:s.i]}
		if i := slices.IndexFunc(list, func(o argument) bool { return o.name == name }); i >= 0 {
			list[i], changed = a, true
			return nil
		}
		list = append(list, a)
		return nil
	})
	if err != nil {
		return nil, false, &ArgumentError{tool, err.Error()}
	}
	return list, changed, nil
}

func joinArguments(list []argument) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, a := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(a.name))
		b.WriteByte(':')
		b.Write(a.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// coerce returns the value in the declared type, or says what was expected.
func (p Param) coerce(v json.RawMessage) (json.RawMessage, error) {
	kind := kindOf(v)
	var text string
	switch {
	case p.AnyJSON:
		return v, nil
	case p.Type == "string" && kind == "string":
		return v, p.checkEnum(v)
	case p.Type != "string" && kind == "string" && json.Unmarshal(v, &text) == nil:
		inner := json.RawMessage(strings.TrimSpace(text))
		if !json.Valid(inner) || kindOf(inner) == "string" {
			return nil, p.expected(v)
		}
		return p.coerce(inner)
	case p.Type == "integer" && kind == "number":
		return p.integer(v)
	case p.Type == kind:
		return v, p.checkItems(v)
	}
	return nil, p.expected(v)
}

func (p Param) expected(v json.RawMessage) error {
	want := "a " + p.Type
	if p.Type == "integer" || p.Type == "array" || p.Type == "object" {
		want = "an " + p.Type
	}
	if p.Type == "array" {
		want += " of " + p.Items + "s"
	}
	got := []rune(string(v))
	if len(got) > 60 {
		got = append(got[:60], '…')
	}
	return fmt.Errorf("%s: expected %s, got %s", p.Name, want, string(got))
}

// integer lets a whole number through as it is written; some clients write 3
// as 3.0.
func (p Param) integer(v json.RawMessage) (json.RawMessage, error) {
	if whole, rest, found := bytes.Cut(v, []byte(".")); found && len(bytes.Trim(rest, "0")) == 0 {
		return whole, nil
	}
	if bytes.ContainsAny(v, ".eE") {
		return nil, p.expected(v)
	}
	return v, nil
}

func (p Param) checkEnum(v json.RawMessage) error {
	var s string
	if err := json.Unmarshal(v, &s); err != nil || len(p.Enum) == 0 || slices.Contains(p.Enum, s) {
		return err
	}
	return fmt.Errorf("%s: expected one of %s, got %s", p.Name, strings.Join(p.Enum, ", "), v)
}

func (p Param) checkItems(v json.RawMessage) error {
	if p.Type != "array" {
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(v, &items); err != nil {
		return p.expected(v)
	}
	for _, item := range items {
		k := kindOf(item)
		if k != p.Items && !(p.Items == "integer" && k == "number") {
			return p.expected(v)
		}
	}
	return nil
}

// kindOf names the JSON type of a value.
func kindOf(v json.RawMessage) string {
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
