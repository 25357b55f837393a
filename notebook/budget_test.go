package notebook

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"colab-mcp/bridge"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// report is a result as run_cells gives it.
type report struct {
	Status  string  `json:"status"`
	Cells   []*View `json:"cells"`
	LeftOut int     `json:"left_out,omitempty"`
}

func layoutReport(shown []*View, leftOut int) any {
	return report{Status: "ok", Cells: shown, LeftOut: leftOut}
}

func keepAs(ref string) func(*View) (string, error) {
	return func(*View) (string, error) { return ref, nil }
}

func fitReport(t testing.TB, views []*View, most int, keep func(*View) (string, error)) (report, string) {
	t.Helper()
	b, err := Fit(views, Budget{Most: most}, layoutReport, keep)
	if err != nil {
		t.Fatal(err)
	}
	if n := utf8.RuneCount(b); n > most {
		t.Fatalf("%d runes, the budget is %d", n, most)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

func TestBudgetFollowsTheClient(t *testing.T) {
	for _, c := range []struct {
		client   string
		override int
		want     Budget
	}{
		{"codex-mcp-client", 0, Budget{10_000, Bytes}}, {"Codex", 0, Budget{10_000, Bytes}}, {"opencode", 0, Budget{30_000, Bytes}},
		{"gemini-cli", 0, Budget{30_000, Characters}}, {"claude-code", 0, Budget{30_000, Characters}}, {"", 0, Budget{30_000, Characters}},
		{"codex-mcp-client", 50_000, Budget{50_000, Bytes}}, {"x", 3, Budget{LeastBudget, Characters}},
	} {
		if got := BudgetOf(c.client, c.override); got != c.want {
			t.Errorf("BudgetOf(%q, %d) = %v, want %v", c.client, c.override, got, c.want)
		}
	}
}

func TestViewsEncodeAsTheContractSays(t *testing.T) {
	v := View{Index: ptr(0), ID: "a<b", Status: StatusOK, DurationS: 1.25, ExecutionCount: ptr(4), Stdout: "x & y\n",
		Error: &Error{Name: "E", Value: "v", Traceback: "t"}, Images: 2, Truncated: map[string]int{"stdout": 7}, OutputRef: "r"}
	b, err := bridge.EncodeJSON(v)
	want := `{"index":0,"id":"a<b","status":"ok","duration_s":1.25,"execution_count":4,"stdout":"x & y\n",` +
		`"error":{"name":"E","value":"v","traceback":"t"},"images":2,"truncated":{"stdout":7},"output_ref":"r"}`
	if d := cmp.Diff(want, string(b)); d != "" || err != nil {
		t.Error(err, d)
	}
	if b, _ := bridge.EncodeJSON(View{Status: StatusSkipped}); string(b) != `{"status":"skipped"}` {
		t.Errorf("%s", b)
	}
}

func TestWhatFitsIsNotTouched(t *testing.T) {
	v := &View{Status: StatusOK, Stdout: strings.Repeat("line\n", 100), Result: "<&>"}
	r, text := fitReport(t, []*View{v}, 2000, func(*View) (string, error) {
		t.Error("kept for nothing")
		return "", nil
	})
	if d := cmp.Diff(v, r.Cells[0], cmpopts.IgnoreUnexported(View{})); d != "" || !strings.Contains(text, "<&>") {
		t.Error(d, text)
	}
}

// R7: 5 MB of stdout.
func TestALongTextKeepsHeadAndTail(t *testing.T) {
	var b strings.Builder
	for i := 0; b.Len() < 5_000_000; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	v := &View{Index: ptr(3), Status: StatusOK, Stdout: b.String()}
	for _, budget := range []int{CodexBudget, DefaultBudget} {
		r, text := fitReport(t, []*View{v}, budget, keepAs("ref-1"))
		got := r.Cells[0]
		if n := utf8.RuneCountInString(text); n < budget*9/10 {
			t.Errorf("only %d of %d runes used", n, budget)
		}
		head, rest, ok := strings.Cut(got.Stdout, "… ")
		marker, tail, ok2 := strings.Cut(rest, " …\n")
		if !ok || !ok2 || !strings.HasSuffix(head, "\n") || !strings.HasPrefix(tail, "line ") {
			t.Fatalf("no head, marker and tail by lines: %q", clip(got.Stdout, 3000))
		}
		if !strings.HasPrefix(v.Stdout, head) || !strings.HasSuffix(v.Stdout, tail) {
			t.Error("head or tail are not of the text")
		}
		omitted := len(v.Stdout) - len(head) - len(tail)
		if got.Truncated["stdout"] != omitted || got.OutputRef != "ref-1" {
			t.Errorf("truncated %v, ref %q; %d bytes are missing", got.Truncated, got.OutputRef, omitted)
		}
		if want := bytesText(omitted) + ` omitted, read_output {"output_ref":"ref-1","stream":"stdout"}`; marker != want {
			t.Errorf("marker %q, want %q", marker, want)
		}
	}
	if v.OutputRef != "" || v.Truncated != nil {
		t.Error("the view itself was changed")
	}
}

func TestSmallCellsStayWholeBesideLargeOnes(t *testing.T) {
	var views []*View
	for i := range 12 {
		v := &View{Index: ptr(i), Status: StatusOK, Stdout: fmt.Sprintf("small %d\n", i)}
		if i%4 == 0 {
			v.Stdout = strings.Repeat(fmt.Sprintf("large %d\n", i), 100_000)
		}
		views = append(views, v)
	}
	r, _ := fitReport(t, views, DefaultBudget, keepAs("r"))
	for i, got := range r.Cells {
		switch {
		case i%4 != 0 && (got.Stdout != views[i].Stdout || got.Truncated != nil):
			t.Errorf("small cell %d is %+v", i, got)
		case i%4 == 0 && len(got.Stdout) < DefaultBudget/4:
			t.Errorf("large cell %d has only %d bytes", i, len(got.Stdout))
		}
	}
}

// R4
func TestTheEndOfAnExceptionGoesBeforeOtherText(t *testing.T) {
	long := strings.Repeat("frame\n", 50_000)
	v := &View{Status: StatusError, Stdout: long, Stderr: long, Result: long,
		Error: &Error{Name: "ValueError", Value: "the reason", Traceback: long + "ValueError: the reason"}}
	r, _ := fitReport(t, []*View{v}, CodexBudget, keepAs("r"))
	e := r.Cells[0].Error
	if e.Value != "the reason" || !strings.HasSuffix(e.Traceback, "frame\nValueError: the reason") || len(e.Traceback) < CodexBudget/4 {
		t.Errorf("value %q, traceback of %d ending %q", e.Value, len(e.Traceback), e.Traceback[max(0, len(e.Traceback)-40):])
	}
	if len(r.Cells[0].Stdout) < 500 || r.Cells[0].Truncated["traceback"] == 0 {
		t.Errorf("stdout has %d bytes, truncated %v", len(r.Cells[0].Stdout), r.Cells[0].Truncated)
	}
}

func TestQuietCellsAreLeftOutOfAVeryLongReport(t *testing.T) {
	var views []*View
	for i := range 2000 {
		v := &View{Index: ptr(i), ID: fmt.Sprintf("cell%08d", i), Status: StatusOK, DurationS: 0.125, ExecutionCount: ptr(i + 1)}
		if i == 1500 {
			v.Status, v.Error = StatusError, &Error{Name: "E", Value: "v", Traceback: "E: v"}
		}
		views = append(views, v)
	}
	r, _ := fitReport(t, views, CodexBudget, nil)
	found := false
	for _, v := range r.Cells {
		found = found || *v.Index == 1500
	}
	if !found || r.LeftOut == 0 || r.LeftOut+len(r.Cells) != 2000 || len(r.Cells) < 50 {
		t.Errorf("%d cells shown, %d left out, the failed one among them: %v", len(r.Cells), r.LeftOut, found)
	}
}

func TestTextThatCannotBeKeptIsCutAndSaysSo(t *testing.T) {
	v := &View{Status: StatusOK, Stdout: strings.Repeat("x", 100_000)}
	r, _ := fitReport(t, []*View{v}, CodexBudget, func(*View) (string, error) { return "", errors.New("disk full") })
	got := r.Cells[0]
	if !strings.Contains(got.Note, "disk full") || got.OutputRef != "" || got.Truncated["stdout"] == 0 {
		t.Errorf("note %q, ref %q, truncated %v", got.Note, got.OutputRef, got.Truncated)
	}
}

func TestAFrameOverTheBudgetIsAnError(t *testing.T) {
	_, err := Fit([]*View{{Status: StatusOK, Stdout: "x"}}, Budget{Most: LeastBudget}, func(shown []*View, _ int) any {
		return []any{shown, strings.Repeat("x", 2000)}
	}, nil)
	if !errors.Is(err, ErrFrame) {
		t.Errorf("%v, want ErrFrame", err)
	}
}

// anyText is text of every cost in JSON, with and without lines.
var anyText = rapid.Custom(func(t *rapid.T) string {
	piece := rapid.StringOfN(rapid.OneOf(
		rapid.SampledFrom([]rune("ab\n\n\"\\\x00\x01\x7f\u2028\u2029<>&é█\U0001F600\uFFFD")), rapid.Rune()), 0, 60, -1).Draw(t, "piece")
	if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
		piece += "\xff\xc3"
	}
	return strings.Repeat(piece, rapid.SampledFrom([]int{0, 1, 3, 100, 2000}).Draw(t, "times"))
})

// anyBudget is one that a client may have.
var anyBudget = rapid.Custom(func(t *rapid.T) Budget {
	return Budget{
		Most: rapid.SampledFrom([]int{LeastBudget, 1500, CodexBudget, DefaultBudget}).Draw(t, "most"),
		Unit: rapid.SampledFrom([]Unit{Characters, Bytes}).Draw(t, "unit"),
	}
})

// clientSize is the size of a result as a client finds it.
func clientSize(u Unit, b []byte) int {
	if u == Bytes {
		return len(b)
	}
	return len(utf16.Encode([]rune(string(b))))
}

// R7: never over the budget, whatever the text; and counted to the byte.
func TestAResultNeverExceedsItsBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := anyBudget.Draw(t, "budget")
		var views []*View
		for i := range rapid.SampledFrom([]int{0, 1, 1, 2, 5, 60}).Draw(t, "cells") {
			v := &View{Index: ptr(i), ID: anyText.Draw(t, "id"), Status: StatusOK, Note: anyText.Draw(t, "note"),
				Stdout: anyText.Draw(t, "stdout"), Stderr: anyText.Draw(t, "stderr"), Result: anyText.Draw(t, "result")}
			if rapid.Bool().Draw(t, "raised") {
				v.Error = &Error{Name: anyText.Draw(t, "name"), Value: anyText.Draw(t, "value"), Traceback: anyText.Draw(t, "traceback")}
			}
			views = append(views, v)
		}
		asked := map[*View]int{}
		b, err := Fit(views, budget, layoutReport, func(v *View) (string, error) {
			asked[v]++
			if *v.Index%3 == 2 {
				return "", errors.New("full\n\"")
			}
			return "0f8fad5b-d9cb-469f-a165-70867728950e", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := clientSize(budget.Unit, b); n > budget.Most || !utf8.Valid(b) {
			t.Fatalf("%d, the budget is %v; valid UTF-8: %v", n, budget, utf8.Valid(b))
		}
		var r report
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Cells)+r.LeftOut != len(views) {
			t.Fatalf("%d shown and %d left out of %d", len(r.Cells), r.LeftOut, len(views))
		}
		for _, v := range r.Cells {
			orig := views[*v.Index]
			if asked[orig] > 1 {
				t.Fatalf("cell %d was kept %d times", *v.Index, asked[orig])
			}
			for name, texts := range map[string][2]string{"stdout": {orig.Stdout, v.Stdout}, "stderr": {orig.Stderr, v.Stderr}, "result": {orig.Result, v.Result}} {
				checkCut(t, name, strings.ToValidUTF8(texts[0], "\uFFFD"), texts[1], v.Truncated[name])
			}
		}
	})
}

// checkCut fails unless shown is whole, or head, marker and tail of it with
// omitted bytes between.
func checkCut(t *rapid.T, name, whole, shown string, omitted int) {
	if omitted == 0 {
		if shown != whole {
			t.Fatalf("%s was changed and no cut is counted", name)
		}
		return
	}
	if shown == "" {
		if omitted != len(whole) {
			t.Fatalf("%s: %d bytes omitted of %d", name, omitted, len(whole))
		}
		return
	}
	marker := "… " + bytesText(omitted) + " omitted"
	for from := 0; ; {
		i := strings.Index(shown[from:], marker)
		if i < 0 {
			t.Fatalf("%s: no %q in %q", name, marker, clip(shown, 300))
		}
		at := from + i
		head := shown[:at]
		_, tail, _ := strings.Cut(shown[at+len(marker):], " …")
		for _, h := range []string{head, strings.TrimSuffix(head, "\n")} {
			for _, tl := range []string{tail, strings.TrimPrefix(tail, "\n")} {
				if len(h)+len(tl)+omitted == len(whole) && strings.HasPrefix(whole, h) && strings.HasSuffix(whole, tl) {
					return
				}
			}
		}
		from = at + len(marker)
	}
}

func TestCostIsWhatEncodingCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.ToValidUTF8(anyText.Draw(t, "text"), "\uFFFD")
		b, err := bridge.EncodeJSON(s)
		for _, u := range []Unit{Characters, Bytes} {
			if n := clientSize(u, b) - 2; err != nil || n != u.cost(s) || n != u.size(b)-2 {
				t.Fatalf("%q costs %d, not %d (%v)", s, n, u.cost(s), err)
			}
		}
	})
}
