package notebook

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"colab-mcp/bridge"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAllThatACellSaidIsKept(t *testing.T) {
	outs := outputs(t, `[
		{"output_type":"stream","name":"stdout","text":"10%\r100%\n"},
		{"output_type":"stream","name":"stderr","text":"as it is\n"},
		{"output_type":"display_data","data":{"text/plain":"   a","text/html":"<table>x</table>","image/png":"iVBORw0KGgo="}},
		{"output_type":"error","ename":"E","evalue":"v","traceback":["\u001b[31mt"]}]`)
	k := Keep(outs, Render(outs))
	want := map[string]string{
		"stdout": "100%\n", "stdout.raw": "10%\r100%\n", "stderr": "as it is\n",
		"result": "   a", "text/html": "<table>x</table>\n", "value": "v", "traceback": "t",
	}
	if d := cmp.Diff(want, k.Streams); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"stdout", "stderr", "result", "traceback", "stdout.raw", "text/html", "value"}, k.Names()); d != "" {
		t.Error(d)
	}
	b, err := json.Marshal(k)
	var again Kept
	if err != nil || json.Unmarshal(b, &again) != nil || !cmp.Equal(k, again) {
		t.Errorf("%v: %+v", err, again)
	}
}

func TestWhatACutOmitsIsReadByOffset(t *testing.T) {
	text := strings.Repeat("line with \"quotes\" and é\n", 20_000)
	k := Kept{Streams: map[string]string{"stdout": text}}
	var b strings.Builder
	q := Query{OutputRef: "r"}
	for pages := 0; ; pages++ {
		p, err := k.Read(q, Budget{Most: CodexBudget})
		if err != nil {
			t.Fatal(err)
		}
		enc, _ := bridge.EncodeJSON(p)
		if utf8.RuneCount(enc) > CodexBudget || p.Bytes != len(p.Text) || p.Total != len(text) || !strings.HasSuffix(p.Text, "\n") {
			t.Fatalf("page %d: %d runes, %d bytes of %d", pages, utf8.RuneCount(enc), p.Bytes, p.Total)
		}
		b.WriteString(p.Text)
		if p.NextOffset == nil {
			break
		}
		q.Offset = *p.NextOffset
	}
	if b.String() != text {
		t.Error("the pages together are not the text")
	}
}

func TestQueriesOfAKeptOutput(t *testing.T) {
	var b strings.Builder
	for i := 1; i <= 100; i++ {
		fmt.Fprintf(&b, "row %d\n", i)
	}
	k := Kept{Streams: map[string]string{"stdout": b.String(), "stderr": "äöü", "result": strings.Repeat("x", 5000) + "needle" + strings.Repeat("y", 5000)}}
	for _, c := range []struct {
		name string
		q    Query
		want Page
	}{
		{"tail", Query{Tail: 2}, Page{Stream: "stdout", Offset: 677, Bytes: 15, Text: "row 99\nrow 100\n", Total: 692}},
		{"a slice", Query{Offset: 6, Limit: 6}, Page{Stream: "stdout", Offset: 6, Bytes: 6, Text: "row 2\n", Total: 692, NextOffset: ptr(12)}},
		{"inside a rune", Query{Stream: "stderr", Offset: 1, Limit: 1}, Page{Stream: "stderr", Offset: 2, Bytes: 2, Text: "ö", Total: 6, NextOffset: ptr(4)}},
		{"beyond the end", Query{Offset: 9999}, Page{Stream: "stdout", Offset: 692, Total: 692}},
		{"grep", Query{Grep: `^row \d$`, Limit: 12}, Page{Stream: "stdout", Bytes: 12, Text: "1:row 1\n2:row 2\n", Total: 692, NextOffset: ptr(12), Matches: ptr(2)}},
		{"grep from an offset", Query{Grep: `row 9[89]`, Offset: 6}, Page{Stream: "stdout", Offset: 6, Bytes: 686, Text: "98:row 98\n99:row 99\n", Total: 692, Matches: ptr(2)}},
		{"the last that match", Query{Grep: `0$`, Tail: 1}, Page{Stream: "stdout", Bytes: 692, Text: "100:row 100\n", Total: 692, Matches: ptr(1)}},
		{"no match", Query{Grep: "nowhere"}, Page{Stream: "stdout", Bytes: 692, Total: 692, Matches: ptr(0)}},
		{"a long line", Query{Stream: "result", Grep: "needle"}, Page{Stream: "result", Bytes: 10006, Total: 10006, Matches: ptr(1),
			Text: "1:…" + strings.Repeat("x", 100) + "needle" + strings.Repeat("y", 294) + "…\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := k.Read(c.q, Budget{Most: DefaultBudget})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestQueriesThatMakeNoSenseSayWhatWould(t *testing.T) {
	k := Kept{Streams: map[string]string{"stdout": "x", "result": "y"}}
	var missing *StreamError
	if _, err := k.Read(Query{Stream: "sdtout"}, Budget{Most: DefaultBudget}); !errors.As(err, &missing) || !cmp.Equal(missing.Known, []string{"stdout", "result"}) {
		t.Errorf("%v", err)
	}
	for _, q := range []Query{{Grep: "("}, {Offset: -1}, {Limit: -1}, {Tail: -1}, {Tail: 1, Offset: 1}} {
		if _, err := k.Read(q, Budget{Most: DefaultBudget}); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// R7: paging and searching any text stays within the budget and ends.
func TestPagesNeverExceedTheBudgetAndMakeProgress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ToValidUTF8(anyText.Draw(t, "text"), "\uFFFD")
		k := Kept{Streams: map[string]string{"stdout": text}}
		budget := anyBudget.Draw(t, "budget")
		q := Query{
			OutputRef: "r",
			Limit:     rapid.SampledFrom([]int{0, 0, 1, 7, 5000}).Draw(t, "limit"),
			Tail:      rapid.SampledFrom([]int{0, 0, 1, 50}).Draw(t, "tail"),
			Grep:      rapid.SampledFrom([]string{"", "", "a", ".", "^$"}).Draw(t, "grep"),
		}
		for range 200 {
			p, err := k.Read(q, budget)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := bridge.EncodeJSON(p)
			if n := clientSize(budget.Unit, b); n > budget.Most || !utf8.ValidString(p.Text) {
				t.Fatalf("%d, the budget is %v: %s", n, budget, clip(string(b), 500))
			}
			if p.NextOffset == nil || q.Tail > 0 {
				return
			}
			if *p.NextOffset <= q.Offset {
				t.Fatalf("from %d to %d", q.Offset, *p.NextOffset)
			}
			q.Offset = *p.NextOffset
		}
	})
}
