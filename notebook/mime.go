package notebook

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// bundle shows a display or a value once, in the form that says most in text:
// an image, and Markdown, LaTeX or plain text; JSON and HTML where the plain
// text only names the object. Interactive things are a note.
func (p *page) bundle(o Output) {
	if o.Data == nil {
		if o.Type != DisplayData && o.Type != ExecuteResult && o.Type != UpdateDisplayData {
			p.note("an output of unknown type %q is not shown (%s)", o.Type, bytesText(len(o.Raw)))
		}
		return
	}
	pictured := p.pictures(o)
	live := interactive(o)
	if live != "" && !pictured {
		p.note("%s is not shown: it lives in the browser", live)
	}

	said, hasPlain := o.mime("text/plain")
	said = plain(said)
	if isRepr(said) || strings.TrimSpace(said) == "" {
		hasPlain = false
	}
	if s, ok := o.mime("text/markdown"); ok {
		p.result(elide(s))
		return
	}
	if s, ok := o.mime("text/latex"); ok {
		p.result(elide(s))
		return
	}
	if hasPlain {
		p.result(said)
		return
	}
	if raw, ok := o.Data["application/json"]; ok {
		p.result(elide(readableJSON(raw)))
		return
	}
	if s, ok := o.mime("text/html"); ok && live == "" {
		p.html(s)
		return
	}
	if pictured || live != "" {
		return
	}
	if p.otherText(o) {
		return
	}
	p.result(said) // only a repr, but all there is
	if said == "" {
		p.unshown(o)
	}
}

// otherText shows text in a format without a rule of its own, as it is.
func (p *page) otherText(o Output) bool {
	for _, name := range slices.Sorted(maps.Keys(o.Data)) {
		if strings.HasPrefix(name, "text/") && name != "text/plain" && name != "text/html" {
			s, _ := o.mime(name)
			p.result(elide(s))
			return true
		}
	}
	return false
}

func (p *page) unshown(o Output) {
	for _, name := range slices.Sorted(maps.Keys(o.Data)) {
		if name != "text/plain" && !isImage(name) {
			p.note("an output of type %s is not shown (%s)", name, bytesText(len(o.Data[name])))
		}
	}
}

// repr matches what Python says of an object that has no text of its own.
var repr = regexp.MustCompile(`^<[^<>\n]{1,300}>$`)

func isRepr(s string) bool { return repr.MatchString(strings.TrimSpace(s)) }

// Live mime types: what they are called, by the beginning of the type.
var live = []struct{ prefix, name string }{
	{"application/vnd.jupyter.widget-view", "a Jupyter widget"},
	{"application/vnd.plotly", "a Plotly chart"},
	{"application/vnd.bokeh", "a Bokeh chart"},
	{"application/vnd.holoviews", "a HoloViews chart"},
	{"application/vnd.vegalite", "a Vega-Lite chart"},
	{"application/vnd.vega", "a Vega chart"},
	{"application/geo+json", "a map"},
	{"application/javascript", "JavaScript"},
	{"text/javascript", "JavaScript"},
	{"application/pdf", "a PDF document"},
	{"audio/", "a sound"},
	{"video/", "a video"},
}

// interactive names what o is if it needs a browser, else "".
func interactive(o Output) string {
	for _, l := range live {
		for name, raw := range o.Data {
			if strings.HasPrefix(name, l.prefix) {
				return l.name + " (" + bytesText(len(raw)) + ")"
			}
		}
	}
	return ""
}

// readableJSON is raw on one line if it is short, else with a line per value,
// so that a cut for length falls between values. Numbers stay as written.
func readableJSON(raw json.RawMessage) string {
	s := compact(raw)
	if len(s) <= 200 {
		return s
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(s), "", " ") != nil {
		return s
	}
	return b.String()
}

// dataURI matches a data URI with base64, as HTML and Markdown embed files.
var dataURI = regexp.MustCompile(`data:([\w.+-]+/[\w.+-]+)?(;[\w=.+-]+)*;base64,[\w+/=%-]*`)

// elide takes embedded files out of text: half a base64 helps nobody.
func elide(s string) string {
	if !strings.Contains(s, ";base64,") {
		return s
	}
	return dataURI.ReplaceAllStringFunc(s, func(uri string) string {
		head, _, _ := strings.Cut(uri, ",")
		kind, _, _ := strings.Cut(strings.TrimPrefix(head, "data:"), ";")
		return kind + " of " + bytesText(len(uri)) + " left out"
	})
}
