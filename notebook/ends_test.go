package notebook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// fitOne is the one view that Fit shows of v.
func fitOne(t interface{ Fatal(...any) }, v *View, budget int) View {
	raw, err := Fit([]*View{v}, Budget{Most: budget}, func(shown []*View, _ int) any { return shown[0] }, func(*View) (string, error) { return "out-1", nil })
	if err != nil {
		t.Fatal(err)
	}
	if n := utf8.RuneCount(raw); n > max(budget, LeastBudget) {
		t.Fatal(fmt.Sprintf("%d runes over a budget of %d", n, budget))
	}
	var got View
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// R7: of a long kept text only the ends are read, and what is cut is counted
// to the byte all the same.
func TestEndsOfAKeptTextAreCountedAsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"x\n", "0123456789\n", "é😀\n", "no newline "}).Draw(t, "line")
		text := "first line\n" + strings.Repeat(line, rapid.IntRange(1, 600_000/len(line)).Draw(t, "lines")) + "last line"
		budget := rapid.SampledFrom([]int{1_000, 10_000, 30_000, 100_000, 5_000_000}).Draw(t, "budget")
		k := Kept{Streams: map[string]string{"stdout": text, "stderr": "small"}}
		v := &View{Status: StatusOK}
		v.Fill(k.Ends())
		got := fitOne(t, v, budget)
		if len(text) <= 2*endBytes && budget == 5_000_000 {
			if got.Stdout != text || got.Truncated != nil {
				t.Fatalf("a text that is all here was cut: %v", got.Truncated)
			}
			return
		}
		omitted := got.Truncated["stdout"]
		if omitted == 0 {
			if got.Stdout != text {
				t.Fatalf("%d bytes of %d are shown and none is said to be cut", len(got.Stdout), len(text))
			}
			return
		}
		head, rest, ok := strings.Cut(got.Stdout, "… ")
		_, tail, ok2 := strings.Cut(rest, " …")
		tail = strings.TrimPrefix(tail, "\n")
		if !ok || !ok2 || !strings.HasPrefix(text, strings.TrimSuffix(head, "\n")) || !strings.HasSuffix(text, tail) {
			t.Fatalf("not the ends of the text: %.200q … %.200q", head, tail)
		}
		if n := len(text) - omitted - len(tail); n != len(head) && n != len(head)-1 {
			t.Fatalf("%d bytes: %d shown before, %d behind, %d said to be cut", len(text), len(head), len(tail), omitted)
		}
		if got.OutputRef != "out-1" || got.Stderr != "small" {
			t.Fatalf("%q %q", got.OutputRef, got.Stderr)
		}
	})
}

// Memory for a status of many large cells is that of their ends.
func TestEndsAreSmall(t *testing.T) {
	k := Kept{Streams: map[string]string{"stdout": strings.Repeat("x", 5<<20), "stdout.raw": strings.Repeat("y", 5<<20)}}
	raw, err := json.Marshal(k.Ends())
	if err != nil || len(raw) > 3*endBytes {
		t.Errorf("%d bytes (%v)", len(raw), err)
	}
}
