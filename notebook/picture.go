package notebook

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func isImage(mime string) bool { return strings.HasPrefix(mime, "image/") }

// pictures shows the image of a bundle, if it has one: the first that decodes
// (a bundle holds one picture in several formats). An SVG is text.
func (p *page) pictures(o Output) bool {
	drawing := ""
	for _, name := range slices.Sorted(maps.Keys(o.Data)) {
		if !isImage(name) {
			continue
		}
		s, _ := o.mime(name)
		if strings.HasPrefix(name, "image/svg") {
			drawing = s
			continue
		}
		if p.picture(name, s) {
			return true
		}
	}
	if drawing != "" {
		p.drawing(drawing)
		return true
	}
	return false
}

// picture takes one base64 picture into the result, or says why not. It is
// true also for a picture that is fine and one too many.
func (p *page) picture(label, data string) bool {
	if svg := strings.TrimSpace(data); strings.HasPrefix(svg, "<") {
		p.drawing(svg) // an SVG under another name
		return true
	}
	b, err := fromBase64(data)
	if err != nil {
		p.note("a picture (%s) is not shown: it is not base64", label)
		return false
	}
	if strings.HasPrefix(label, "image/svg") {
		p.drawing(string(b))
		return true
	}
	if p.renderer.images >= MaxImages {
		f, c, err := sniff(b)
		if err != nil {
			p.note("a picture (%s, %s) is not shown: %v", label, bytesText(len(b)), err)
			return false
		}
		p.note("%s is not shown: a result has at most %d images", name(f.mime, b, c.Width, c.Height), MaxImages)
		return true
	}
	img, err := readImage(b)
	if err != nil {
		p.note("a picture (%s, %s) is not shown: %v", label, bytesText(len(b)), err)
		return false
	}
	p.renderer.images++
	p.out.Images = append(p.out.Images, img)
	return true
}

func name(mime string, b []byte, w, h int) string {
	return fmt.Sprintf("%s (%d×%d pixels, %s)", mime, w, h, bytesText(len(b)))
}

// drawing shows the words of an SVG, and notes that the lines are not.
func (p *page) drawing(svg string) {
	p.note("image/svg+xml (%s) is shown as its text only", bytesText(len(svg)))
	if words := svgText(svg); words != "" {
		p.result("svg: " + words)
	}
}

// svgText is what an SVG says: titles, descriptions, labels.
func svgText(svg string) string {
	dec := xml.NewDecoder(bytes.NewReader([]byte(svg)))
	dec.Strict = false
	dec.Entity = xml.HTMLEntity
	var words []string
	silent := 0
	for {
		tok, err := dec.Token()
		if err != nil {
			break
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if n := tok.Name.Local; silent > 0 || n == "style" || n == "script" || n == "metadata" {
				silent++
			}
		case xml.EndElement:
			silent = max(silent-1, 0)
		case xml.CharData:
			if s := strings.Join(strings.Fields(string(tok)), " "); s != "" && silent == 0 {
				words = append(words, s)
			}
		}
	}
	return elide(strings.Join(words, " | "))
}
