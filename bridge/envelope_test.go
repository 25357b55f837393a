package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

var sampleFrames = []string{
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a<b && c>d"}],"structuredContent":{"n":9007199254740993}}}`,
	"{\n  \"jsonrpc\" : \"2.0\",\r\n\t\"id\" : 7 , \"error\" : { \"code\" : -32602, \"message\" : \"x\" } }\n",
	`{"method":"notifications/progress","params":{"progressToken":1,"progress":0.5e-3}}`,
	`{"id":"tab-1","method":"ping"}`, `{"id":null,"method":"x","params":[]}`,
	`{"id":2,"result":{"x":1e400,"y":-0.0,"z":[true,false,null,{}],"u":"\ud800\u0000\/\b"}}`,
	`{"id":2,"id":3,"result":{},"result":{"again":1}}`,
	`{}`, ` { } `, `{"id":1}`, `[]`, `[{"id":1,"result":{}}]`, `null`, `hello`, ``, `{`, `{"id":1,"result":{`, `{"id":1,"result":{}}{}`,
	`{"id":01}`, `{"id":1.}`, `{"id":-}`, `{"id":1e}`, `{"id":+1}`, `{"a":tru}`, `{"a" 1}`, `{"a":1,}`, `{,}`, `{"a":[1,]}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{'a':1}`,
	"{\"a\":\"\x01\"}", "{\"a\":\"\t\"}", "{\"a\":\"\xff\"}", "\ufeff{}", "{\"a\":\"\u2028\x7f\"}", "{\"a\":NaN}", "{\"a\"\v:1}",
	`{"id":1,"result":{"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}}`,
	`{"i\u0064":5,"result":{}}`,
}

// agrees checks scan against encoding/json.
func agrees(t *testing.T, frame []byte) {
	t.Helper()
	whole := bytes.Clone(frame)
	env, err := scan(frame)
	object := bytes.HasPrefix(bytes.TrimLeft(whole, " \t\r\n"), []byte("{"))
	if want := json.Valid(whole) && utf8.Valid(whole) && object; want != (err == nil) {
		t.Fatalf("%q: %v, encoding/json says valid = %v", whole, err, want)
	}
	if err != nil {
		return
	}
	if bytes.ContainsAny(frame, "\r\n") {
		t.Errorf("%q keeps a line break", frame)
	}
	var before, after any
	if json.Unmarshal(whole, &before) == nil { // 1e400 is JSON and no float64
		if err := json.Unmarshal(frame, &after); err != nil || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%q became %q", whole, frame)
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(frame, &members); err != nil {
		t.Fatalf("%q: %v", frame, err)
	}
	if bytes.Contains(frame, []byte(`\u`)) {
		return // a key may be written with escapes, which no SDK does; scan reads the plain ones
	}
	for key, got := range map[string][]byte{"id": env.id, "method": env.method, "params": env.params, "result": env.result, "error": env.err} {
		if !bytes.Equal(got, members[key]) {
			t.Errorf("%q: %s is %q, want %q", frame, key, got, members[key])
		}
	}
}

// I2, C9: what passes is what encoding/json takes, byte for byte.
func TestScanAgreesWithEncodingJSON(t *testing.T) {
	for _, f := range sampleFrames {
		agrees(t, []byte(f))
	}
	// Every cut and every changed byte of a good frame.
	for _, f := range sampleFrames[:6] {
		for i := range f {
			agrees(t, []byte(f[:i]))
			for _, c := range "\x00\x1f \"\\{}[],:0-.eu\x80\xc3" {
				b := []byte(f)
				b[i] = byte(c)
				agrees(t, b)
			}
		}
	}
	// Strings of every length around the eight bytes that are looked at together.
	for n := range 40 {
		for _, end := range []string{`"`, `\"`, `\\`, "\x1f", "\x00", "é", "\x80"} {
			agrees(t, []byte(`{"a":"`+strings.Repeat("x", n)+end+`"}`))
			agrees(t, []byte(`{"a":"`+strings.Repeat("\xc3\xa9", n)+end+`yyyyyyyyyyyy"}`))
		}
	}
}

// A nesting that encoding/json would refuse at the agent is refused here, with the same limit.
func TestScanBoundsDepth(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		for _, depth := range []int{maxDepth - 2, maxDepth - 1, maxDepth, maxDepth + 1, 1 << 20} {
			inner, shut := "1", strings.NewReplacer("[", "]", `{"a":`, "}").Replace(open)
			frame := `{"a":` + strings.Repeat(open, depth) + inner + strings.Repeat(shut, depth) + "}"
			if _, err := scan([]byte(frame)); (err == nil) != json.Valid([]byte(frame)) {
				t.Errorf("%d of %q: %v", depth, open, err)
			}
		}
	}
}

// Fields is the same reading of one value.
func TestFieldsAreTheBytesOfEachMember(t *testing.T) {
	const raw = `{"a": {"x" : [1e400, "\u00e9"]}, "b\n":"<>", "a":2 ,"c":9007199254740993}`
	got, err := Fields([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "2", "b\n": `"<>"`, "c": "9007199254740993"}
	if len(got) != len(want) {
		t.Errorf("%d members", len(got))
	}
	for k, v := range want {
		if string(got[k]) != v {
			t.Errorf("%q is %s, want %s", k, got[k], v)
		}
	}
	for _, bad := range []string{"", "[]", "null", `{"a":}`, `{"a":1`} {
		if got, err := Fields([]byte(bad)); err == nil {
			t.Errorf("%q has the fields %v", bad, got)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range sampleFrames {
		f.Add([]byte(s))
	}
	f.Fuzz(agrees)
}

// deafPeer is a peer without a socket, that waits for the answers of calls 1, 2 and 3.
func deafPeer() (*peer, []*call) {
	p := &peer{log: slog.New(slog.DiscardHandler), notify: func(string, json.RawMessage) {}, out: make(chan []byte), done: make(chan struct{}), pending: map[int64]*call{}}
	var calls []*call
	for id := range int64(3) {
		c := &call{id: id + 1, answer: make(chan answer, 1), progress: func(json.RawMessage) {}}
		p.pending[c.id], calls = c, append(calls, c)
	}
	return p, calls
}

// outcome is what a call came to, false if it still waits.
func outcome(c *call) (answer, bool) {
	select {
	case a := <-c.answer:
		return a, true
	default:
		return answer{}, false
	}
}

// tolerates checks that a frame of the tab, whatever it is, settles at most one call, and that the others are answered later
// all the same.
func tolerates(t *testing.T, frame []byte) {
	t.Helper()
	p, calls := deafPeer()
	env, err := scan(bytes.Clone(frame))
	p.receive(bytes.Clone(frame))
	settled := 0
	for _, c := range calls {
		a, done := outcome(c)
		if done {
			settled++
			if a.err == nil && !json.Valid(a.result) {
				t.Errorf("%q: call %d got %q", frame, c.id, a.result)
			}
			var broken *FrameError
			if err != nil && !errors.As(a.err, &broken) {
				t.Errorf("%q: call %d got %v", frame, c.id, a.err)
			}
			if env.method != nil {
				t.Errorf("%q is no answer, and call %d took it", frame, c.id)
			}
			continue
		}
		p.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"own":%d}}`, c.id, c.id))
		if a, done := outcome(c); !done || a.err != nil || string(a.result) != fmt.Sprintf(`{"own":%d}`, c.id) {
			t.Errorf("%q: later call %d got %q, %v", frame, c.id, a.result, a.err)
		}
	}
	if settled > 1 {
		t.Errorf("%q settled %d calls", frame, settled)
	}
	if len(p.pending) > 0 {
		t.Errorf("%q left %d calls waiting", frame, len(p.pending))
	}
	close(p.done)
	p.wg.Wait() // a reply that nobody takes ends with the connection
}

// I2, tab-protocol section 5
func TestAnyFrameOfTheTabIsTolerated(t *testing.T) {
	for _, f := range sampleFrames {
		tolerates(t, []byte(f))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		b := []byte(sampleFrames[r.IntN(len(sampleFrames))])
		for range 1 + r.IntN(3) {
			if len(b) > 0 {
				b[r.IntN(len(b))] = byte(r.IntN(256))
			}
		}
		tolerates(t, b)
	}
}

func FuzzReceive(f *testing.F) {
	for _, s := range sampleFrames {
		f.Add([]byte(s))
	}
	f.Fuzz(tolerates)
}
