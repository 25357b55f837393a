package notebook

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kept is everything a cell said, to be read in pages after a result had to
// cut it. It encodes to JSON for whoever stores it.
type Kept struct {
	// Streams by name: stdout, stderr, result, value and traceback as they
	// were shown (offsets count in these); stdout.raw and stderr.raw as they
	// came, where that differs; and what a display had beside the form shown,
	// by mime type. Never empty texts, and no pictures.
	Streams map[string]string `json:"streams"`
}

// longestMIME is the longest mime type (bytes) that may name a stream.
const longestMIME = 100

// Keep collects what read_output can show of a cell.
func Keep(outs []Output, r Rendered) Kept {
	k := Kept{Streams: map[string]string{}}
	raw := map[string]*strings.Builder{}
	add := func(name, text string) {
		if raw[name] == nil {
			raw[name] = new(strings.Builder)
		}
		raw[name].WriteString(text)
	}
	for _, o := range outs {
		if o.Type == Stream {
			if o.Name == "stderr" {
				add("stderr.raw", o.Text)
			} else {
				add("stdout.raw", o.Text)
			}
		}
		for mime := range o.Data {
			if s, _ := o.mime(mime); !isImage(mime) && mime != "text/plain" && len(mime) <= longestMIME {
				add(mime, elide(s)+"\n")
			}
		}
	}
	for name, b := range raw {
		if s := strings.ToValidUTF8(b.String(), "\uFFFD"); s != "" {
			k.Streams[name] = s
		}
	}
	k.shown("stdout", r.Stdout)
	k.shown("stderr", r.Stderr)
	k.shown("result", r.Result)
	if r.Error != nil {
		k.shown("value", r.Error.Value)
		k.shown("traceback", r.Error.Traceback)
	}
	return k
}

// shown adds a rendered stream; the raw one goes if it says the same.
func (k Kept) shown(name, text string) {
	if text != "" {
		k.Streams[name] = text
	}
	if k.Streams[name+".raw"] == text {
		delete(k.Streams, name+".raw")
	}
}

// ErrQuery means that what was asked of a kept output makes no sense; its text
// says what would.
var ErrQuery = errors.New("cannot read that")

// StreamError means that a kept output has no such stream.
type StreamError struct {
	Name  string
	Known []string
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("there is no stream %q; it has %s", clip(e.Name, 60), clip(strings.Join(e.Known, ", "), 400))
}

// Names lists the streams, the usual default first.
func (k Kept) Names() []string {
	names := slices.Sorted(maps.Keys(k.Streams))
	for _, first := range []string{"traceback", "result", "stderr", "stdout"} {
		if i := slices.Index(names, first); i > 0 {
			names = slices.Insert(slices.Delete(names, i, i+1), 0, first)
		}
	}
	return names
}

// stream is the text asked for; no name is the first there is.
func (k Kept) stream(name string) (string, string, error) {
	names := k.Names()
	if name == "" && len(names) > 0 {
		name = names[0]
	}
	text, ok := k.Streams[name]
	if !ok {
		return "", "", &StreamError{Name: name, Known: names}
	}
	return name, text, nil
}
