package notebook

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

func TestCellsDecodeAsTheTabSendsThem(t *testing.T) {
	cells, err := DecodeCells(json.RawMessage(`{"cells":[
		{"cell_type":"code","id":"Qa7_xM2-kLp9","source":["a\n","b"],"execution_count":3,"outputs":[
			{"output_type":"stream","name":"stdout","text":["x\n","y"]}],"metadata":{"cellView":"form"}},
		{"cell_type":"text","source":"# T"},
		{"cell_type":"code","id":null,"source":[],"execution_count":null,"outputs":[]},
		{"cell_type":"code"},
		{"cell_type":"sql","source":"select 1"},
		{"source":"no type"},
		7
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Cell{
		{Index: 0, Type: Code, ID: "Qa7_xM2-kLp9", Source: "a\nb", ExecutionCount: ptr(3), HasCount: true, HasOutputs: true,
			Outputs:  []Output{{Type: Stream, Name: "stdout", Text: "x\ny", Raw: json.RawMessage(`{"output_type":"stream","name":"stdout","text":["x\n","y"]}`)}},
			Metadata: json.RawMessage(`{"cellView":"form"}`)},
		{Index: 1, Type: Markdown, Source: "# T"},
		{Index: 2, Type: Code, HasCount: true, HasOutputs: true, Outputs: []Output{}},
		{Index: 3, Type: Code},
		{Index: 4, Type: "sql", Source: "select 1"},
		{Index: 5, Type: Raw, Source: "no type"},
		{Index: 6, Type: Raw, Source: "7"},
	}
	if d := cmp.Diff(want, cells); d != "" {
		t.Error(d)
	}
}

func TestOutputsDecodeTolerantly(t *testing.T) {
	outs, err := DecodeOutputs(json.RawMessage(`{"outputs":[
		{"output_type":"stream","text":"no name"},
		{"output_type":"error","ename":"E","evalue":"v"},
		{"output_type":"error","ename":"E","traceback":"one string"},
		{"output_type":"execute_result","data":{"x/new":{"n":9007199254740993}},"execution_count":9007199254740993},
		{"output_type":"hologram","depth":3},
		null
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range outs {
		outs[i].Raw = nil
	}
	want := []Output{
		{Type: Stream, Name: "stdout", Text: "no name"},
		{Type: ErrorOutput, EName: "E", EValue: "v"},
		{Type: ErrorOutput, EName: "E", Traceback: []string{"one string"}},
		{Type: ExecuteResult, ExecutionCount: ptr(9007199254740993), // above 2^53: no float64 on the way
			Data: map[string]json.RawMessage{"x/new": json.RawMessage(`{"n":9007199254740993}`)}},
		{Type: "hologram"},
		{},
	}
	if d := cmp.Diff(want, outs); d != "" {
		t.Error(d)
	}
}

func TestAnAnswerOfAnotherShapeIsRefusedByName(t *testing.T) {
	for _, payload := range []string{"", "null", "[]", `"x"`, "{}", `{"cells":{}}`, `{"Cells":[]}`, `{"cells":`} {
		if _, err := DecodeCells(json.RawMessage(payload)); !errors.Is(err, ErrShape) {
			t.Errorf("DecodeCells(%s) = %v, want ErrShape", payload, err)
		}
		if _, err := DecodeOutputs(json.RawMessage(payload)); !errors.Is(err, ErrShape) {
			t.Errorf("DecodeOutputs(%s) = %v, want ErrShape", payload, err)
		}
	}
	if cells, err := DecodeCells(json.RawMessage(`{"cells":null}`)); err != nil || len(cells) != 0 {
		t.Errorf("a null list: %v, %v, want an empty one", cells, err)
	}
}

func FuzzDecodeCells(f *testing.F) {
	f.Add([]byte(`{"cells":[{"cell_type":"code","id":"a","source":["x"],"outputs":[{"output_type":"stream","text":["a","b"]}]}]}`))
	f.Add([]byte(`{"cells":[{"cell_type":"text","source":{"a":1},"outputs":null},[],null,1e400]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		cells, err := DecodeCells(payload)
		if err != nil {
			if !errors.Is(err, ErrShape) {
				t.Fatalf("%v is not ErrShape", err)
			}
			return
		}
		for i, c := range cells {
			if c.Index != i || c.Type == "" {
				t.Fatalf("cell %d is %+v", i, c)
			}
			r := Render(c.Outputs)
			for _, s := range append(r.Notes, r.Stdout, r.Stderr, r.Result) {
				checkPlain(t, s)
			}
		}
	})
}
