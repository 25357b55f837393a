package notebook

import (
	"fmt"
	"strings"
)

// Rendered is what a model is shown of one cell's outputs, in full: nothing is
// cut for length here (see Fit). All text is valid UTF-8 without escape
// sequences. A cell without outputs renders to the zero value; there is no
// word for "nothing".
type Rendered struct {
	Stdout, Stderr string
	Result         string // displays and the cell's value, a line between them
	Error          *Error // the exception that ended the cell
	Images         []Image
	Notes          []string // what is there and cannot be shown
}

// Error is an exception as Python raised it.
type Error struct {
	Name      string `json:"name"`
	Value     string `json:"value,omitempty"`
	Traceback string `json:"traceback,omitempty"` // never empty when rendered: at least "name: value"

	// Code is ours, for an end that Python only knows as a KeyboardInterrupt.
	Code string `json:"code,omitempty"`
}

// Renderer shows the outputs of any number of cells in one result. It counts
// the images: a result has at most MaxImages. The zero value is ready. Not safe
// for concurrent use.
type Renderer struct {
	images int
}

// Render shows the outputs of one cell, in a result of its own.
func Render(outs []Output) Rendered {
	var r Renderer
	return r.Render(outs)
}

// Render shows the outputs of the result's next cell.
func (r *Renderer) Render(outs []Output) Rendered {
	p := page{renderer: r}
	for _, o := range outs {
		switch o.Type {
		case Stream:
			// A carriage return in one stream reaches back over what the other
			// said meanwhile, so each has its own terminal.
			if o.Name == "stderr" {
				p.stderr.WriteString(o.Text)
			} else {
				p.stdout.WriteString(o.Text)
			}
		case ErrorOutput:
			p.out.Error = renderError(o)
		default:
			p.bundle(o)
		}
	}
	p.out.Stdout = p.stdout.String()
	p.out.Stderr = p.stderr.String()
	p.out.Result = strings.Join(p.results, "\n")
	return p.out
}

// page is one rendering under way.
type page struct {
	renderer       *Renderer
	stdout, stderr Terminal
	results        []string
	out            Rendered
}

func (p *page) result(s string) {
	if s = plain(s); s != "" {
		p.results = append(p.results, s)
	}
}

const maxNotes = 20

func (p *page) note(format string, args ...any) {
	switch n := len(p.out.Notes); {
	case n < maxNotes:
		p.out.Notes = append(p.out.Notes, clip(fmt.Sprintf(format, args...), 300))
	case n == maxNotes:
		p.out.Notes = append(p.out.Notes, "more of the kind is not named")
	}
}

func renderError(o Output) *Error {
	e := &Error{Name: plain(o.EName), Value: plain(o.EValue)}
	if e.Name == "" {
		e.Name = "Error"
	}
	lines := make([]string, len(o.Traceback))
	for i, l := range o.Traceback {
		lines[i] = plain(l)
	}
	e.Traceback = strings.Trim(strings.Join(lines, "\n"), "\n")
	if strings.TrimSpace(e.Traceback) == "" {
		e.Traceback = strings.TrimSuffix(e.Name+": "+e.Value, ": ")
	}
	return e
}
