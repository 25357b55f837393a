package notebook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func each(cells []Cell) iter.Seq2[Cell, error] {
	return func(yield func(Cell, error) bool) {
		for _, c := range cells {
			if !yield(c, nil) {
				return
			}
		}
	}
}

var withOutputs = ExportOptions{Outputs: true}

func export(t testing.TB, cells []Cell, o ExportOptions) ([]byte, Exported) {
	t.Helper()
	var b bytes.Buffer
	done, err := Export(&b, each(cells), o)
	if err != nil {
		t.Fatal(err)
	}
	if done.Bytes != int64(b.Len()) || done.Cells != len(cells) {
		t.Fatalf("wrote %d bytes of %d cells, and says %+v", b.Len(), len(cells), done)
	}
	return b.Bytes(), done
}

func cells(t testing.TB, list string) []Cell {
	t.Helper()
	c, err := DecodeCells(json.RawMessage(`{"cells":` + list + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fileCell is a cell as a reader of the file sees it.
type fileCell struct {
	CellType       string            `json:"cell_type"`
	ID             string            `json:"id"`
	Source         json.RawMessage   `json:"source"` // a list in the file, joined by nbformat
	ExecutionCount *int              `json:"execution_count"`
	Outputs        []json.RawMessage `json:"outputs"`
	Metadata       map[string]any    `json:"metadata"`
}

func readBack(t testing.TB, file []byte) []fileCell {
	t.Helper()
	var nb struct {
		Cells    []fileCell `json:"cells"`
		NBFormat int        `json:"nbformat"`
		Minor    int        `json:"nbformat_minor"`
	}
	if err := json.Unmarshal(file, &nb); err != nil {
		t.Fatalf("%v in %s", err, file)
	}
	if nb.NBFormat != 4 || nb.Minor != 5 {
		t.Fatalf("nbformat %d.%d", nb.NBFormat, nb.Minor)
	}
	return nb.Cells
}

// nbformatReads lets Jupyter's own library validate and read the notebooks. A
// machine without it skips the test, or fails it where COLAB_MCP_REQUIRE_REAL
// is set.
func nbformatReads(t *testing.T, files ...[]byte) [][]fileCell {
	t.Helper()
	script, err := filepath.Abs("testdata/check_notebook.py")
	if err != nil {
		t.Fatal(err)
	}
	var python string
	for _, p := range []string{"/usr/bin/python3", "python3"} { // Debian's packages are for its own
		if exec.Command(p, "-c", "import nbformat, nbconvert").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		const what = "no python3 has nbformat and nbconvert (Debian: apt-get install python3-nbformat python3-nbconvert)"
		if os.Getenv("COLAB_MCP_REQUIRE_REAL") != "" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	dir := t.TempDir()
	var paths []string
	for i, f := range files {
		p := filepath.Join(dir, fmt.Sprintf("%d.ipynb", i))
		if err := os.WriteFile(p, f, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	list, _ := json.Marshal(paths)
	cmd := exec.Command(python, script)
	cmd.Stdin = bytes.NewReader(list)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var answers []struct {
		Error string     `json:"error"`
		Cells []fileCell `json:"cells"`
	}
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	all := make([][]fileCell, len(answers))
	for i, a := range answers {
		if a.Error != "" {
			t.Errorf("notebook %d is not valid: %s\n%s", i, clip(a.Error, 2000), files[i])
		}
		all[i] = a.Cells
	}
	return all
}

// E1
const oddIDs = `[
	{"cell_type":"code","id":"Qa7_xM2-kLp9","source":"a","outputs":[]},
	{"cell_type":"code","id":"Qa7_xM2-kLp9","source":"a","outputs":[]},
	{"cell_type":"code","id":"Qa7_xM2-kLp9","source":"a","outputs":[]},
	{"cell_type":"markdown","id":null,"source":"x"},
	{"cell_type":"markdown","source":"x"},
	{"cell_type":"markdown","id":"with spaces","source":"x"},
	{"cell_type":"raw","id":"","source":"x"},
	{"cell_type":"code","id":"ünïcödé","source":"x"},
	{"cell_type":"code","id":"line\n","source":"x"},
	{"cell_type":"code","id":7,"source":"x"},
	{"cell_type":"code","id":"` + "0123456789012345678901234567890123456789012345678901234567890123" + `","source":"64"},
	{"cell_type":"code","id":"` + "01234567890123456789012345678901234567890123456789012345678901234" + `","source":"65"}]`

// E2
const oddOutputs = `[{"cell_type":"code","id":"o","source":"x","execution_count":2,"outputs":[
	{"output_type":"stream","text":"no name"},
	{"output_type":"stream","name":"stdout"},
	{"output_type":"stream","name":"stderr","text":["a\n","b"],"metadata":{"x":1}},
	{"output_type":"stream","name":"stdout","text":7},
	{"output_type":"error"},
	{"output_type":"error","ename":"E","evalue":"v"},
	{"output_type":"error","ename":"E","evalue":{"odd":1},"traceback":"one"},
	{"output_type":"display_data","data":{"text/plain":"x"},"transient":{"display_id":"d"}},
	{"output_type":"update_display_data","data":{"text/plain":"x"},"metadata":{"k":[1]},"transient":{}},
	{"output_type":"display_data"},
	{"output_type":"display_data","data":"not a bundle"},
	{"output_type":"display_data","data":{"image/png":["iVBOR","w0KGgo="],"text/html":{"a":1},"x/number":3,"text/plain":null,
		"application/json":{"big":9007199254740993,"z":1,"a":1e400},"application/x+json":[1],"jsonish":[1]},"metadata":"odd"},
	{"output_type":"execute_result","data":{"text/plain":["4","2"]},"metadata":{}},
	{"output_type":"execute_result","data":{},"execution_count":-3},
	{"output_type":"execute_result","data":{"application/json":"half \ud83d and \\ud83d and \ud83d\ude00"},"execution_count":5},
	{"output_type":"hologram","depth":3},
	{"no":"type"},
	"a string", null, 12]}]`

const oddMetadata = `[
	{"cell_type":"code","source":"x","metadata":{"cellView":"form","id":"abc","colab":{"base_uri":"u"},"tags":["a","b"],"collapsed":false}},
	{"cell_type":"code","source":"x","metadata":{"tags":["a,b"],"name":"","collapsed":"no","scrolled":3,"jupyter":[],"execution":{"t":1}}},
	{"cell_type":"code","source":"x","metadata":{"tags":["a","a"],"scrolled":"auto"},"attachments":{"f":{"image/png":"x"}}},
	{"cell_type":"code","source":"x","metadata":[1]},
	{"cell_type":"markdown","source":"x","metadata":null,"attachments":{"f.png":{"image/png":"iVBORw0KGgo="}}},
	{"cell_type":"markdown","source":"x","attachments":{"f.png":3}},
	{"cell_type":"raw","source":"x","metadata":{"format":3}},
	{"cell_type":"sql","source":"select 1"},
	{"source":["no ","type"]},
	[1,2]]`

// E1, E2
func TestWhateverTheTabGivesIsAValidNotebook(t *testing.T) {
	var files [][]byte
	for _, list := range []string{"[]", oddIDs, oddOutputs, oddMetadata} {
		for _, o := range []ExportOptions{{}, withOutputs} {
			b, _ := export(t, cells(t, list), o)
			files = append(files, b)
		}
	}
	nbformatReads(t, files...)
}

// E1
func TestIDsAreLegalUniqueAndTheSameEachTime(t *testing.T) {
	in := cells(t, oddIDs)
	first, _ := export(t, in, withOutputs)
	second, _ := export(t, in, withOutputs)
	if !bytes.Equal(first, second) {
		t.Error("two exports differ")
	}
	seen := map[string]bool{}
	out := readBack(t, first)
	for i, c := range out {
		if !legalID.MatchString(c.ID) || seen[c.ID] {
			t.Errorf("cell %d has id %q", i, c.ID)
		}
		seen[c.ID] = true
	}
	for i, want := range map[int]string{0: in[0].ID, 10: in[10].ID} {
		if out[i].ID != want {
			t.Errorf("the legal id %q became %q", want, out[i].ID)
		}
	}
}

// E1, E3
func TestAnySourcesRoundTripUnderLegalIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("a\n\r\t\"\\<\u2028\v\f\x00\x85")), rapid.Rune()))
		var in []Cell
		for range rapid.IntRange(0, 6).Draw(t, "cells") {
			in = append(in, Cell{
				Type:   rapid.SampledFrom([]string{Code, Markdown, Raw, "sql"}).Draw(t, "type"),
				ID:     rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b", "a b"}), text).Draw(t, "id"),
				Source: text.Draw(t, "source"),
			})
		}
		var b bytes.Buffer
		if _, err := Export(&b, each(in), withOutputs); err != nil {
			t.Fatal(err)
		}
		var nb struct{ Cells []fileCell }
		if err := json.Unmarshal(b.Bytes(), &nb); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i, c := range nb.Cells {
			if got := joined(c.Source); got != in[i].Source {
				t.Fatalf("source %q became %q", in[i].Source, got)
			}
			if !legalID.MatchString(c.ID) || seen[c.ID] {
				t.Fatalf("id %q", c.ID)
			}
			seen[c.ID] = true
		}
	})
}

// joined is a source as the schema has it, put together.
func joined(source json.RawMessage) string {
	var list []string
	if json.Unmarshal(source, &list) == nil {
		return strings.Join(list, "")
	}
	var s string
	_ = json.Unmarshal(source, &s)
	return s
}

// E3: as Jupyter's own reader joins the lines.
func TestSourcesRoundTripThroughJupyter(t *testing.T) {
	sources := []string{"a\nb\n", "", "\n", "a\r\nb", "\r", "a\x0bb\x0cc\u0085d\u2028e", "tab\t\"q\" \\ <&>", "\U0001F600\n\n\n"}
	var in []Cell
	for _, s := range sources {
		in = append(in, Cell{Type: Code, Source: s}, Cell{Type: Markdown, Source: s})
	}
	file, _ := export(t, in, withOutputs)
	read := nbformatReads(t, file)[0]
	if len(read) != len(in) {
		t.Fatalf("%d cells of %d", len(read), len(in))
	}
	for i, c := range read {
		if got := joined(c.Source); got != in[i].Source {
			t.Errorf("%q became %q", in[i].Source, got)
		}
	}
}

// E2
func TestNothingIsLostThatTheSchemaAllows(t *testing.T) {
	file, _ := export(t, cells(t, oddOutputs), withOutputs)
	outs := readBack(t, file)[0].Outputs
	for i, want := range map[int]string{
		0:  `{"name":"stdout","output_type":"stream","text":["no name"]}`,
		2:  `{"name":"stderr","output_type":"stream","text":["a\n","b"]}`,
		3:  `{"name":"stdout","output_type":"stream","text":["7"]}`,
		4:  `{"ename":"","evalue":"","output_type":"error","traceback":[]}`,
		6:  `{"ename":"E","evalue":"{\"odd\":1}","output_type":"error","traceback":["one"]}`,
		7:  `{"data":{"text/plain":["x"]},"metadata":{},"output_type":"display_data"}`,
		8:  `{"data":{"text/plain":["x"]},"metadata":{"k":[1]},"output_type":"display_data"}`,
		12: `{"data":{"text/plain":["4","2"]},"execution_count":2,"metadata":{},"output_type":"execute_result"}`,
		13: `{"data":{},"execution_count":null,"metadata":{},"output_type":"execute_result"}`,
		14: `{"data":{"application/json":"half \ufffd and \\ud83d and \ud83d\ude00"},"execution_count":5,"metadata":{},"output_type":"execute_result"}`,
		15: `{"data":{"application/vnd.colab-mcp.output+json":{"output_type":"hologram","depth":3},` +
			`"text/plain":["[an output of unknown type \"hologram\", kept as application/vnd.colab-mcp.output+json]"]},"metadata":{},"output_type":"display_data"}`,
	} {
		if got := compact(outs[i]); got != want {
			t.Errorf("output %d is\n%s, want\n%s", i, got, want)
		}
	}
	if got := compact(outs[11]); !strings.Contains(got, `"application/json":{"big":9007199254740993,"z":1,"a":1e400}`) ||
		!strings.Contains(got, `"image/png":["iVBOR","w0KGgo="]`) || !strings.Contains(got, `"text/html":["{\"a\":1}"]`) {
		t.Errorf("a bundle became %s", got)
	}
}

func TestMetadataStaysAsFarAsTheSchemaAllows(t *testing.T) {
	file, _ := export(t, cells(t, oddMetadata), withOutputs)
	out := readBack(t, file)
	for i, want := range map[int]map[string]any{
		0: {"cellView": "form", "id": "abc", "colab": map[string]any{"base_uri": "u"}, "tags": []any{"a", "b"}, "collapsed": false},
		1: {"colab-mcp/tags": []any{"a,b"}, "colab-mcp/name": "", "colab-mcp/collapsed": "no", "colab-mcp/scrolled": 3.0,
			"colab-mcp/jupyter": []any{}, "colab-mcp/execution": map[string]any{"t": 1.0}},
		4: {},
		5: {"colab-mcp/attachments": map[string]any{"f.png": 3.0}},
		7: {"colab-mcp/cell_type": "sql"},
	} {
		if d := cmp.Diff(want, out[i].Metadata); d != "" {
			t.Errorf("cell %d: %s", i, d)
		}
	}
}

// E4, R5
func TestTheLastRunFillsInWhatTheTabDoesNotGive(t *testing.T) {
	in := cells(t, `[
		{"cell_type":"code","id":"ran","source":"a"},
		{"cell_type":"code","id":"empty","source":"a","outputs":[]},
		{"cell_type":"code","id":"null","source":"a","outputs":null},
		{"cell_type":"code","id":"changed","source":"b"},
		{"cell_type":"markdown","id":"text","source":"a"}]`)
	o := ExportOptions{Outputs: true, Memory: func(id, source string) ([]json.RawMessage, bool) {
		if source != "a" {
			return nil, false
		}
		return []json.RawMessage{json.RawMessage(`{"output_type":"stream","text":"` + id + `"}`)}, true
	}}
	file, done := export(t, in, o)
	if done.OutputsFromMemory != 2 {
		t.Errorf("%d cells from memory, want 2", done.OutputsFromMemory)
	}
	out := readBack(t, file)
	for i, want := range []string{"ran", "", "null", "", ""} {
		switch {
		case want == "" && len(out[i].Outputs) != 0:
			t.Errorf("cell %d has %s", i, out[i].Outputs)
		case want != "" && (len(out[i].Outputs) != 1 || !strings.Contains(string(out[i].Outputs[0]), want)):
			t.Errorf("cell %d has %s, want %q", i, out[i].Outputs, want)
		}
	}
}

func TestOutputsAreLeftOutOnRequest(t *testing.T) {
	o := ExportOptions{Memory: func(string, string) ([]json.RawMessage, bool) {
		t.Error("memory was asked")
		return nil, false
	}}
	file, _ := export(t, cells(t, `[{"cell_type":"code","id":"a","source":"x","execution_count":3,"outputs":[{"output_type":"stream","text":"x"}]},
		{"cell_type":"code","source":"y"}]`), o)
	for i, c := range readBack(t, file) {
		if c.ExecutionCount != nil || len(c.Outputs) != 0 || c.Outputs == nil {
			t.Errorf("cell %d: count %v, outputs %v", i, c.ExecutionCount, c.Outputs)
		}
	}
}

func TestAnExportEndsWithTheErrorOfItsCells(t *testing.T) {
	gone := errors.New("tab gone")
	_, err := Export(io.Discard, func(yield func(Cell, error) bool) {
		if yield(Cell{Type: Code}, nil) {
			yield(Cell{}, gone)
		}
	}, withOutputs)
	if err != gone {
		t.Errorf("%v, want %v", err, gone)
	}
	full := errors.New("disk full")
	if _, err := Export(failing{full}, each(make([]Cell, 3)), withOutputs); !errors.Is(err, full) {
		t.Errorf("%v, want %v", err, full)
	}
}

// A 50 MiB notebook is not held whole: what was yielded is written before the
// next cell is asked for, up to a buffer.
func TestCellsAreWrittenAsTheyCome(t *testing.T) {
	var b bytes.Buffer
	c := Cell{Type: Code, HasOutputs: true, Outputs: []Output{{Type: Stream, Name: "stdout", Text: strings.Repeat("line\n", 20_000)}}}
	_, err := Export(&b, func(yield func(Cell, error) bool) {
		for i := range 20 {
			if behind := i*len(c.Outputs[0].Text) - b.Len(); behind > 1<<16 {
				t.Errorf("at cell %d, %d bytes are not written", i, behind)
			}
			if !yield(c, nil) {
				return
			}
		}
	}, withOutputs)
	if err != nil {
		t.Fatal(err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A 50 MiB notebook, fetched cell by cell, must not be held whole.
func BenchmarkExport(b *testing.B) {
	out := Output{Type: Stream, Name: "stdout", Text: strings.Repeat("a line of output\n", 60_000)}
	c := Cell{Type: Code, ID: "x", Source: "print()", HasOutputs: true, Outputs: []Output{out}}
	b.SetBytes(50 * int64(len(out.Text)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := Export(io.Discard, func(yield func(Cell, error) bool) {
			for range 50 {
				if !yield(c, nil) {
					return
				}
			}
		}, withOutputs)
		if err != nil {
			b.Fatal(err)
		}
	}
}
