package bridge

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// FuzzParseLink holds what is true of every accepted link: it leads to Colab, carries our token
// once, and is the same notebook when it comes back.
func FuzzParseLink(f *testing.F) {
	for _, s := range []string{
		"", "{ID}", "{B}/drive/{ID}?authuser=1&resourcekey=0-xY_z#scrollTo=aB-3&mcpProxyToken=OLD&mcpProxyPort=1",
		"https://drive.google.com/file/u/1/d/{ID}/view?usp=sharing", "https://drive.google.com/u/0/open?id={ID}",
		"https://colab.new", "{B}/#create=true&language=r", "{B}/gist/u/{GID}/n.ipynb",
		"https://github.com/o/r/blob/feature%2Fx/日本[1].ipynb?plain=1#L3",
		"https://raw.githubusercontent.com/o/r/refs/heads/feature/x/n.ipynb?token=SECRET",
		"https://gist.github.com/u/{GID}#file-my-nb-ipynb", "nbviewer.org/github/o/r/blob/main/n.ipynb",
		"https://colab.research.google.com.evil.tld/drive/{ID}", "https://a:b@github.com:443/o/r/blob/m/..%2e/n.ipynb",
		`C:\n.ipynb`, "javascript:alert(1)", "--version", "https://github.com/o/r/blob/m/%00.ipynb#a#b?c",
	} {
		f.Add(expandLink(s))
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLink(s)
		if err != nil {
			var le *LinkError
			if !errors.As(err, &le) || le.Reason == "" || le.Do == "" || l != (Link{}) {
				t.Fatalf("refused with %#v and link %#v", err, l)
			}
			return
		}
		opened := l.Open("TOKEN", 40123)
		u, err := url.Parse(opened)
		if err != nil {
			t.Fatalf("%q opens %q: %v", s, opened, err)
		}
		if u.Scheme != "https" || u.Host != "colab.research.google.com" || u.User != nil || !strings.HasPrefix(opened, colabOrigin+"/") {
			t.Fatalf("%q opens %q", s, opened)
		}
		if i := strings.IndexFunc(opened, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) }); i >= 0 {
			t.Fatalf("%q opens %q: character %q", s, opened, opened[i])
		}
		v, err := url.ParseQuery(u.EscapedFragment())
		if err != nil || len(v["mcpProxyToken"]) != 1 || len(v["mcpProxyPort"]) != 1 ||
			v.Get("mcpProxyToken") != "TOKEN" || v.Get("mcpProxyPort") != "40123" {
			t.Fatalf("%q opens the fragment %q: %v", s, u.EscapedFragment(), err)
		}
		if strings.Contains(l.URL(), "mcpProxy") && !strings.Contains(l.Notebook(), "mcpProxy") || strings.Contains(l.URL(), linkMarkerKey+"=") && !strings.Contains(l.Notebook(), linkMarkerKey) {
			t.Fatalf("%q shows %q", s, l.URL())
		}
		again, err := ParseLink(l.URL())
		if err != nil || again.URL() != l.URL() || again.Notebook() != l.Notebook() || !again.Serves(l) || !l.Serves(again) {
			t.Fatalf("%q shows %q, which parses to %q, %v", s, l.URL(), again.URL(), err)
		}
	})
}
