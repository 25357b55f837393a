package notebook

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outputs decodes a list of outputs written as JSON.
func outputs(t testing.TB, list string) []Output {
	t.Helper()
	outs, err := DecodeOutputs(json.RawMessage(`{"outputs":` + list + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return outs
}

// display is one display_data with a bundle of strings.
func display(bundle map[string]string) []Output {
	data := map[string]json.RawMessage{}
	for k, v := range bundle {
		data[k], _ = json.Marshal(v)
	}
	return []Output{{Type: DisplayData, Data: data}}
}

// R5
func TestNoOutputRendersToNothing(t *testing.T) {
	if d := cmp.Diff(Rendered{}, Render(nil)); d != "" {
		t.Error(d)
	}
}

// R2
func TestStreamsAreJoinedByName(t *testing.T) {
	r := Render(outputs(t, `[
		{"output_type":"stream","name":"stdout","text":["10%\r","20%"]},
		{"output_type":"stream","name":"stderr","text":"warn\u001b[3"},
		{"output_type":"stream","name":"stdout","text":"\r100%\n"},
		{"output_type":"stream","name":"stderr","text":"1ming\n"}]`))
	if r.Stdout != "100%\n" || r.Stderr != "warning\n" {
		t.Errorf("stdout %q, stderr %q", r.Stdout, r.Stderr)
	}
}

// R3
func TestTheFormThatSaysMostIsShown(t *testing.T) {
	const repr = "<IPython.core.display.Thing object at 0x7f00>"
	for _, c := range []struct {
		name   string
		bundle map[string]string
		want   string
	}{
		{"plain", map[string]string{"text/plain": "42"}, "42"},
		{"plain with colours", map[string]string{"text/plain": "\x1b[31m42\x1b[0m"}, "42"},
		{"a DataFrame", map[string]string{"text/plain": "   a\n0  1", "text/html": "<table><tr><td>1</td></tr></table>"}, "   a\n0  1"},
		{"markdown", map[string]string{"text/plain": repr, "text/markdown": "# T"}, "# T"},
		{"latex", map[string]string{"text/plain": repr, "text/latex": "$x^2$"}, "$x^2$"},
		{"html beside a repr", map[string]string{"text/plain": repr, "text/html": "<h2>T</h2><p>a <b>b</b> &lt;c&gt;</p>"}, "## T\n\na **b** &lt;c&gt;"},
		{"html alone", map[string]string{"text/html": "<ul><li>a</li><li>b</li></ul><script>x()</script><style>p{}</style>"}, "- a\n- b"},
		{"a table", map[string]string{"text/html": "<table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>1</td></tr></table>"},
			"| k | v |\n|---|---|\n| a | 1 |"},
		{"an empty plain text beside html", map[string]string{"text/plain": "", "text/html": "<p>x</p>"}, "x"},
		{"a drawing in html", map[string]string{"text/html": "<div><svg><style>p{}</style><text>root</text><text>leaf</text></svg></div>"}, "root | leaf"},
		{"only a repr", map[string]string{"text/plain": "<function f at 0x7f00>"}, "<function f at 0x7f00>"},
		{"text of a kind without a rule", map[string]string{"text/csv": "a,b"}, "a,b"},
		{"markdown with a file in it", map[string]string{"text/markdown": "![x](data:image/png;base64,iVBORw0KGgo=) end"},
			"![x](image/png of 34 bytes left out) end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Render(display(c.bundle))
			if r.Result != c.want || len(r.Notes) > 0 {
				t.Errorf("result %q, want %q; notes %q", r.Result, c.want, r.Notes)
			}
		})
	}
}

// R3, C9
func TestJSONKeepsItsNumbersAndOrder(t *testing.T) {
	r := Render(outputs(t, `[{"output_type":"display_data","data":{"text/plain":["<IPython.core.display.JSON object>"],
		"application/json":{"z":9007199254740993, "a":1e400, "s":"a<b && c"}}}]`))
	if want := `{"z":9007199254740993,"a":1e400,"s":"a<b && c"}`; r.Result != want {
		t.Errorf("%s, want %s", r.Result, want)
	}
}

func TestDisplaysAndTheValueAreOneResult(t *testing.T) {
	r := Render(outputs(t, `[{"output_type":"display_data","data":{"text/plain":"a"}},
		{"output_type":"execute_result","data":{"text/plain":["b\n","c"]},"execution_count":1}]`))
	if r.Result != "a\nb\nc" {
		t.Errorf("%q", r.Result)
	}
}

func TestWhatLivesInTheBrowserIsANote(t *testing.T) {
	plotly, _ := json.Marshal("<div></div><script>Plotly.newPlot('x', [])</script>")
	for _, c := range []struct{ name, outs, note, result string }{
		{"widget", `[{"output_type":"display_data","data":{"application/vnd.jupyter.widget-view+json":{"model_id":"x"},"text/plain":"  0%|  | 0/3"}}]`, "Jupyter widget", "  0%|  | 0/3"},
		{"plotly", `[{"output_type":"display_data","data":{"application/vnd.plotly.v1+json":{"data":[]},"text/html":"<b>x</b>"}}]`, "Plotly chart", ""},
		{"plotly as html", `[{"output_type":"display_data","data":{"text/html":` + string(plotly) + `}}]`, "Plotly chart", ""},
		{"bokeh", `[{"output_type":"display_data","data":{"application/vnd.bokehjs_exec.v0+json":"","application/javascript":"x"}}]`, "Bokeh chart", ""},
		{"vega", `[{"output_type":"display_data","data":{"application/vnd.vegalite.v5+json":{},"text/plain":"<VegaLite 5 object>"}}]`, "Vega-Lite chart", ""},
		{"html without text", `[{"output_type":"display_data","data":{"text/html":"<canvas></canvas>"}}]`, "HTML of 17 bytes", ""},
		{"an unknown mime type", `[{"output_type":"display_data","data":{"application/x-new":"abc"}}]`, "application/x-new", ""},
		{"an unknown output type", `[{"output_type":"hologram"}]`, `"hologram"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Render(outputs(t, c.outs))
			if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], c.note) || r.Result != c.result {
				t.Errorf("notes %q, result %q", r.Notes, r.Result)
			}
		})
	}
}

func TestHostileHTMLIsReadInLittleMemory(t *testing.T) {
	for _, s := range []string{
		`<table><tr><td colspan="1000000000" rowspan="1000000000">x</td></tr></table>`,
		strings.Repeat("<div>", 20_000) + "x",
		strings.Repeat("<b>", 5_000) + "x" + strings.Repeat("</i>", 5_000),
	} {
		r := Render(display(map[string]string{"text/html": s}))
		checkPlain(t, r.Result)
		if len(r.Result) > 100_000 {
			t.Errorf("%q became %d bytes", clip(s, 40), len(r.Result))
		}
	}
}

// R4
func TestAnExceptionIsAlwaysVisible(t *testing.T) {
	for _, c := range []struct {
		name, out string
		want      Error
	}{
		{"coloured", `{"output_type":"error","ename":"ValueError","evalue":"\u001b[1mbad\u001b[0m","traceback":["\u001b[0;31m---\u001b[0m","line 1\nValueError: bad"]}`,
			Error{Name: "ValueError", Value: "bad", Traceback: "---\nline 1\nValueError: bad"}},
		{"empty traceback", `{"output_type":"error","ename":"E","evalue":"v","traceback":[]}`, Error{Name: "E", Value: "v", Traceback: "E: v"}},
		{"no value", `{"output_type":"error","ename":"KeyboardInterrupt","evalue":""}`, Error{Name: "KeyboardInterrupt", Traceback: "KeyboardInterrupt"}},
		{"nothing", `{"output_type":"error"}`, Error{Name: "Error", Traceback: "Error"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Render(outputs(t, "["+c.out+"]"))
			var v View
			v.Show(r)
			if v.Status != StatusError || v.Error == nil {
				t.Fatalf("view %+v", v)
			}
			if d := cmp.Diff(c.want, *v.Error); d != "" {
				t.Error(d)
			}
		})
	}
}

// R6
func TestImagesAreKnownByTheirBytes(t *testing.T) {
	jpg := jpegOf(t, 40, 30)
	b64 := base64.StdEncoding.EncodeToString(jpg)
	for _, c := range []struct{ name, data string }{
		{"as it is", b64},
		{"with whitespace", strings.Join(strings.SplitAfter(b64, "A"), "\n ") + "\n"},
		{"without padding", strings.TrimRight(b64, "=")},
		{"url alphabet", base64.URLEncoding.EncodeToString(jpg)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Render(display(map[string]string{"image/png": c.data, "text/plain": "<Figure size 40x30>"}))
			if len(r.Images) != 1 || r.Result != "" || len(r.Notes) != 0 {
				t.Fatalf("%d images, result %q, notes %q", len(r.Images), r.Result, r.Notes)
			}
			if d := cmp.Diff(Image{MIME: "image/jpeg", Data: jpg, Width: 40, Height: 30}, r.Images[0]); d != "" {
				t.Error(d)
			}
		})
	}
}

// R6
func TestAPictureThatDoesNotDecodeIsANote(t *testing.T) {
	whole := pngOf(t, noise(64, 64))
	for _, c := range []struct{ name, data string }{
		{"no base64", "!!!"},
		{"cut", base64.StdEncoding.EncodeToString(whole[:len(whole)/2])},
		{"other bytes", base64.StdEncoding.EncodeToString([]byte("BM not ours"))},
		{"empty", ""},
		{"a bomb", base64.StdEncoding.EncodeToString(pngHeader(60_000, 60_000))},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Render(display(map[string]string{"image/png": c.data, "text/plain": "<Figure>"}))
			if len(r.Images) != 0 || len(r.Notes) != 1 || r.Result != "<Figure>" {
				t.Fatalf("%d images, notes %q, result %q", len(r.Images), r.Notes, r.Result)
			}
			checkPlain(t, r.Notes[0])
		})
	}
}

// R6
func TestAnSVGIsItsText(t *testing.T) {
	const svg = `<svg xmlns="http://www.w3.org/2000/svg"><style>p{}</style><title>Tree</title><text>root &amp; leaf</text></svg>`
	for mime, data := range map[string]string{
		"image/svg+xml": svg,
		"image/png":     svg, // mislabelled
	} {
		r := Render(display(map[string]string{mime: data, "text/plain": "<graphviz.Digraph>"}))
		if r.Result != "svg: Tree | root & leaf" || len(r.Notes) != 1 || len(r.Images) != 0 {
			t.Errorf("%s: result %q, notes %q", mime, r.Result, r.Notes)
		}
	}
}

// R6: the ninth image is named, whichever cell it is in.
func TestAResultHasAtMostEightImages(t *testing.T) {
	data := base64.StdEncoding.EncodeToString(pngOf(t, noise(8, 8)))
	var renderer Renderer
	shown := 0
	var notes []string
	for range 5 {
		one := display(map[string]string{"image/png": data})
		r := renderer.Render(append(one, one...))
		shown += len(r.Images)
		notes = append(notes, r.Notes...)
	}
	if shown != MaxImages || len(notes) != 2 || !strings.Contains(notes[0], "image/png (8×8 pixels,") {
		t.Errorf("%d images, notes %q", shown, notes)
	}
}

// R6: HTML may carry the only copy of a plot.
func TestAPictureInHTMLIsAnImage(t *testing.T) {
	data := base64.StdEncoding.EncodeToString(pngOf(t, noise(8, 8)))
	r := Render(display(map[string]string{"text/html": `<p>before</p><img src="data:image/png;base64,` + data + `">`}))
	if len(r.Images) != 1 || r.Result != "before" {
		t.Errorf("%d images, result %q, notes %q", len(r.Images), r.Result, r.Notes)
	}
}
