package notebook

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// longestHTML bounds what is made readable; what is longer is a page of a plot
// library with its data.
const longestHTML = 1 << 20

// Words that give away the library behind a page of scripts.
var htmlLibraries = []struct{ word, name string }{
	{"Plotly.", "a Plotly chart"},
	{"Bokeh", "a Bokeh chart"},
	{"vegaEmbed", "a Vega chart"},
	{"leaflet", "a map"},
	{"HoloViews", "a HoloViews chart"},
	{"<video", "a video"},
	{"<audio", "a sound"},
	{"<iframe", "an embedded page"},
	{"<script", "a script"},
}

// html shows HTML that has no text beside it as Markdown. Pictures in it
// become images of the result.
func (p *page) html(s string) {
	if len(s) <= longestHTML {
		md, embedded, err := readableHTML(s)
		for _, img := range embedded {
			p.picture(img.mime, img.base64)
		}
		if md = strings.TrimSpace(plain(elide(md))); err == nil && md != "" {
			p.result(md)
			return
		}
		if err == nil && len(embedded) > 0 {
			return
		}
	}
	for _, l := range htmlLibraries {
		if strings.Contains(s, l.word) {
			p.note("%s (%s of HTML) is not shown: it lives in the browser", l.name, bytesText(len(s)))
			return
		}
	}
	if strings.TrimSpace(s) != "" {
		p.note("HTML of %s is not shown: it is too long or has no text", bytesText(len(s)))
	}
}

// newConverter makes a converter for one page: a panic may leave it locked.
func newConverter() *converter.Converter {
	return converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithHeaderPromotion(true), table.WithSkipEmptyRows(true)),
	))
}

type embeddedImage struct{ mime, base64 string }

// readableHTML is s as Markdown, and the pictures embedded in it.
func readableHTML(s string) (md string, embedded []embeddedImage, err error) {
	// The page is a stranger's and the converter is not ours.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("html: %v", r)
		}
	}()
	doc, err := html.Parse(strings.NewReader(s))
	if err != nil {
		return "", nil, err
	}
	prune(doc, &embedded)
	b, err := newConverter().ConvertNode(doc)
	return string(b), embedded, err
}

// prune takes out of the tree what says nothing as text, and collects the
// pictures that are embedded as base64.
func prune(n *html.Node, embedded *[]embeddedImage) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && silent(c) {
			n.RemoveChild(c)
		} else if mime, data, ok := inlineImage(c); ok {
			*embedded = append(*embedded, embeddedImage{mime, data})
			n.RemoveChild(c)
		} else if c.DataAtom == atom.Svg {
			n.InsertBefore(&html.Node{Type: html.TextNode, Data: nodeText(c)}, c)
			n.RemoveChild(c)
		} else {
			prune(c, embedded)
		}
		c = next
	}
	for i, a := range n.Attr {
		if a.Key == "colspan" || a.Key == "rowspan" { // the converter allocates what they say
			if v, err := strconv.Atoi(a.Val); err != nil || v > 64 {
				n.Attr[i].Val = "1"
			}
		}
	}
}

func silent(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Button, atom.Input, atom.Iframe,
		atom.Object, atom.Embed, atom.Canvas, atom.Video, atom.Audio:
		return true
	}
	for _, a := range n.Attr {
		if a.Key == "style" && strings.Contains(strings.ReplaceAll(a.Val, " ", ""), "display:none") {
			return true
		}
	}
	return false
}

// nodeText is the text below n, as svgText has it.
func nodeText(n *html.Node) string {
	var words []string
	for c := range n.Descendants() {
		if c.Type == html.TextNode && c.Parent.Data != "style" && c.Parent.Data != "script" {
			if s := strings.Join(strings.Fields(c.Data), " "); s != "" {
				words = append(words, s)
			}
		}
	}
	return strings.Join(words, " | ")
}

func inlineImage(n *html.Node) (mime, data string, ok bool) {
	if n.DataAtom != atom.Img {
		return "", "", false
	}
	for _, a := range n.Attr {
		if a.Key != "src" || !strings.HasPrefix(a.Val, "data:image/") {
			continue
		}
		head, data, found := strings.Cut(a.Val, ",")
		mime, found64 := strings.CutSuffix(strings.TrimPrefix(head, "data:"), ";base64")
		return mime, data, found && found64
	}
	return "", "", false
}
