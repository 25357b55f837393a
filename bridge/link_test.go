package bridge

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

const (
	driveIDSample = "1AbCdEfGhIjKlMnOpQrStUvWxYz012345"
	gistIDSample  = "0123456789abcdef0123456789abcdef"
)

// expandLink fills in the sample ids and Colab's origin.
func expandLink(s string) string {
	return strings.NewReplacer("{ID}", driveIDSample, "{GID}", gistIDSample, "{B}", colabOrigin).Replace(s)
}

// The table of cases.md, "Links", and what is of the same kind.
func TestLinksOpen(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "{B}/notebooks/empty.ipynb"},
		{" \t\r\n", "{B}/notebooks/empty.ipynb"},
		{"{B}/notebooks/empty.ipynb", "{B}/notebooks/empty.ipynb"},
		{"{B}/notebooks/snippets/forms.ipynb", "{B}/notebooks/snippets/forms.ipynb"},

		{"{ID}", "{B}/drive/{ID}"},
		{" {ID}\n", "{B}/drive/{ID}"},
		{"https://drive.google.com/file/d/{ID}/view?usp=sharing", "{B}/drive/{ID}"},
		{"https://drive.google.com/file/d/{ID}", "{B}/drive/{ID}"},
		{"https://drive.google.com/file/d/{ID}/edit#gid=0", "{B}/drive/{ID}"},
		{"https://drive.google.com/open?id={ID}", "{B}/drive/{ID}"},
		{"https://drive.google.com/open?usp=drive_fs&id={ID}&authuser=2", "{B}/drive/{ID}?authuser=2"},
		{"https://drive.google.com/uc?export=download&id={ID}", "{B}/drive/{ID}"},
		{"https://drive.google.com/u/3/open?id={ID}", "{B}/drive/{ID}?authuser=3"},
		{"https://drive.google.com/file/u/1/d/{ID}/view", "{B}/drive/{ID}?authuser=1"},
		{"https://drive.google.com/file/u/1/d/{ID}/view?authuser=2", "{B}/drive/{ID}?authuser=1"},
		{"https://drive.google.com/a/example.com/file/d/{ID}/view", "{B}/drive/{ID}"},
		{"https://drive.google.com/file/d/{ID}/view?resourcekey=0-xY_z", "{B}/drive/{ID}?resourcekey=0-xY_z"},
		{"https://drive.google.com/file/d/{ID}/view?resourcekey=0-xY_z&authuser=me@example.com", "{B}/drive/{ID}?authuser=me@example.com&resourcekey=0-xY_z"},

		{"{B}/drive/{ID}?authuser=1#scrollTo=aB-3", "{B}/drive/{ID}?authuser=1#scrollTo=aB-3"},
		{"{B}/drive/{ID}/?usp=sharing", "{B}/drive/{ID}"},
		{"{B}/drive/{ID}#scrollTo=aB-3&line=2&uniqifier=1", "{B}/drive/{ID}#scrollTo=aB-3&line=2&uniqifier=1"},
		{"{B}/drive/{ID}#mcpProxyToken=OLD&mcpProxyPort=1", "{B}/drive/{ID}"},
		{"{B}/drive/{ID}?colab_mcp=0123456789#scrollTo=x&mcpProxyToken=OLD&mcpProxyPort=1", "{B}/drive/{ID}#scrollTo=x"},
		{"https://colab.google.com/drive/{ID}", "{B}/drive/{ID}"},
		{"colab.research.google.com/drive/{ID}", "{B}/drive/{ID}"},
		{"http://colab.research.google.com/drive/{ID}", "{B}/drive/{ID}"},
		{"HTTPS://Colab.Research.Google.COM/drive/{ID}", "{B}/drive/{ID}"},
		{"GitHub.com/o/r/blob/main/n.ipynb", "{B}/github/o/r/blob/main/n.ipynb"},

		{"https://colab.new", "{B}/#create=true"},
		{"colab.new/", "{B}/#create=true"},
		{"{B}/#create=true", "{B}/#create=true"},
		{"{B}#create=true&language=r&folderId={ID}&token=SECRET", "{B}/#create=true&language=r&folderId={ID}"},

		{"https://github.com/o/r/blob/feature/x/n.ipynb", "{B}/github/o/r/blob/feature/x/n.ipynb"},
		{"https://raw.githubusercontent.com/o/r/refs/heads/feature/x/n.ipynb", "{B}/github/o/r/blob/feature/x/n.ipynb"},
		{"https://raw.githubusercontent.com/o/r/refs/tags/v1/n.ipynb", "{B}/github/o/r/blob/v1/n.ipynb"},
		{"https://raw.githubusercontent.com/o/r/main/dir/n.ipynb", "{B}/github/o/r/blob/main/dir/n.ipynb"},
		{"https://raw.githubusercontent.com/o/r/main/n.ipynb?token=SECRET", "{B}/github/o/r/blob/main/n.ipynb"},
		{"https://github.com/o/r/raw/refs/heads/main/n.ipynb", "{B}/github/o/r/blob/main/n.ipynb"},
		{"https://github.com/o/r/blob/main/n.ipynb?plain=1#L3", "{B}/github/o/r/blob/main/n.ipynb"},
		{"https://github.com/o/r/blob/main/n.ipynb?authuser=1", "{B}/github/o/r/blob/main/n.ipynb"},
		{"{B}/github/o/r/blob/main/n.ipynb?authuser=1", "{B}/github/o/r/blob/main/n.ipynb?authuser=1"},
		{"https://gist.github.com/u/{GID}", "{B}/gist/u/{GID}"},
		{"https://gist.github.com/u/{GID}#file-my-nb-ipynb", "{B}/gist/u/{GID}"},
		{"{B}/gist/u/{GID}/my%20nb.ipynb", "{B}/gist/u/{GID}/my%20nb.ipynb"},
		{"https://nbviewer.org/github/o/r/blob/main/n.ipynb", "{B}/github/o/r/blob/main/n.ipynb"},
		{"https://nbviewer.jupyter.org/gist/u/{GID}?flush_cache=true", "{B}/gist/u/{GID}"},

		// The escaped path is kept as it is, whatever stands beside the escapes.
		{"https://github.com/o/r/blob/feature%2Fx/n.ipynb", "{B}/github/o/r/blob/feature%2Fx/n.ipynb"},
		{"https://github.com/o/r/blob/feature%2fx/日本.ipynb", "{B}/github/o/r/blob/feature%2fx/%E6%97%A5%E6%9C%AC.ipynb"},
		{"https://github.com/o/r/blob/main/50%25%20[a]'b'.ipynb", "{B}/github/o/r/blob/main/50%25%20%5Ba%5D'b'.ipynb"},
		{"https://github.com/o/r/blob/a@b+c/x;y=1,2/n.ipynb", "{B}/github/o/r/blob/a@b+c/x;y=1,2/n.ipynb"},
	} {
		l, err := ParseLink(expandLink(c.in))
		if err != nil {
			t.Errorf("ParseLink(%q): %v", c.in, err)
			continue
		}
		if want := expandLink(c.want); l.URL() != want {
			t.Errorf("ParseLink(%q).URL() = %q, want %q", c.in, l.URL(), want)
		}
		if again, err := ParseLink(l.URL()); err != nil || again.Notebook() != l.Notebook() || again.URL() != l.URL() {
			t.Errorf("ParseLink(%q) = %v, %v; a shown link must parse to itself", l.URL(), again, err)
		}
	}
}

// The rejected rows of cases.md, "Links", and what is of the same kind: each names its cause.
func TestLinksRefused(t *testing.T) {
	const evil = "its host is none that notebooks are opened from"
	for _, c := range []struct{ in, reason string }{
		{"https://drive.google.com/drive/folders/{ID}", "Drive folder"},
		{"https://drive.google.com/drive/u/1/folders/{ID}", "Drive folder"},
		{"https://drive.google.com/folderview?id={ID}", "Drive folder"},
		{"https://drive.google.com/drive/my-drive", "Drive page"},
		{"https://drive.google.com/", "Drive page"},
		{"https://drive.google.com/open?ID={ID}", "no Drive file id"},
		{"https://drive.google.com/file/d/../view", ". or .."},
		{"https://docs.google.com/spreadsheets/d/{ID}/edit", "Google Docs"},
		{"https://docs.google.com/document/d/{ID}/edit", "Google Docs"},

		{"https://github.com/o/r", ".ipynb path"},
		{"https://github.com/o/r/blob/main/README.md", ".ipynb path"},
		{"https://github.com/o/r/tree/main/n.ipynb", ".ipynb path"},
		{"https://github.com/o/r/blob/n.ipynb", ".ipynb path"},
		{"https://github.com/o/r/blob/main/.ipynb", ".ipynb path"},
		{"https://github.com/o/r/blob/main/README.md?x=n.ipynb", ".ipynb path"},
		{"https://raw.githubusercontent.com/o/r/README.md", ".ipynb path"},
		{"https://github.com/o%2Fr/r/blob/main/n.ipynb", "owner or repository"},
		{"https://gist.github.com/{GID}", "gist"},
		{"https://gist.github.com/u/not-hex", "gist"},
		{"https://gist.github.com/u/{GID}/0123456789abcdef0123456789abcdef01234567", "gist"},
		{"https://nbviewer.org/urls/example.com/n.ipynb", "nbviewer"},

		{"{B}", "Colab page"},
		{"{B}/", "Colab page"},
		{"{B}/drive", "Colab page"},
		{"{B}/drive/short", "Drive file id"},
		{"{B}/u/1/drive/{ID}", "Colab page"},
		{"{B}/?create=true", "Colab page"},
		{"{B}/signup", "Colab page"},
		{"https://colab.new/x", "nothing below"},

		{"/home/me/n.ipynb", "local file"},
		{`C:\n.ipynb`, "local file"},
		{"c:/n.ipynb", "local file"},
		{`\\server\n.ipynb`, "local file"},
		{"~/n.ipynb", "local file"},
		{"./n.ipynb", "local file"},
		{"dir/n.ipynb", "local file"},
		{"my notebook.ipynb", "local file"},
		{"file:///home/me/n.ipynb", "local file"},
		{"my-notebook", "neither a link nor a Drive file id"},
		{"my-very-long-notebook-name-here", "neither a link nor a Drive file id"},
		{"javascript:alert(1)", "neither a link"},
		{"javascript://github.com/%0aalert(1)", "not an https link"},
		{"https:github.com/o/r/blob/main/n", "neither a link"},

		{"https://colab.research.google.com.evil.tld/drive/{ID}", evil},
		{"https://evil.tld/colab.research.google.com/drive/{ID}", evil},
		{"https://colab.research.google.com./drive/{ID}", evil},
		{"https://xcolab.research.google.com/drive/{ID}", evil},
		{"https://ｃolab.research.google.com/drive/{ID}", evil},
		{"https://colab.research.google.com%2eevil.tld/drive/{ID}", "malformed"},
		{"https:///drive/{ID}", evil},
		{"https://user:SECRET@colab.research.google.com/drive/{ID}", "user name"},
		{"https://colab.research.google.com@evil.tld/drive/{ID}", "user name"},
		{"https://colab.research.google.com:443/drive/{ID}", "port"},
		{"https://colab.research.google.com:/drive/{ID}", "port"},
		{"https://colab.research.google.com\\@evil.tld/drive/{ID}", "backslash"},
		{"https:\\\\github.com\\o\\r\\blob\\main\\n.ipynb", "backslash"},

		{"https://github.com/o/r/blob/main/../../../../drive/{ID}/n.ipynb", ". or .."},
		{"https://github.com/o/r/blob/main/%2e%2E/n.ipynb", ". or .."},
		{"https://github.com/o/r/blob/main/.%2e/n.ipynb", ". or .."},
		{"https://github.com/o/r/blob/./main/n.ipynb", ". or .."},
		{"https://github.com/o/r/blob/%2e/main/n.ipynb", ". or .."},
		{"https://github.com/o/r/blob//n.ipynb", "empty part"},
		{"https://github.com//o/r/blob/main/n.ipynb", "empty part"},
		{"https://github.com/o/r/blob/main/a%0Ab.ipynb", "encoded control"},
		{"https://github.com/o/r/blob/main/a%7fb.ipynb", "encoded control"},
		{"https://github.com/o/r/blob/main/a%zz.ipynb", "malformed"},
		{"{B}/drive/{ID}\n", ""}, // a line break at the end is the clipboard's, not an attack
		{"{B}/drive/\t{ID}", "control characters"},
		{"{B}/drive/{ID}\n{B}/drive/{ID}", "control characters"},
		{"{B}/drive/{ID}\x1b[2J", "control characters"},
		{"{B}/drive/{ID}\u0085", "control characters"},
		{"{B}/drive/{ID} {B}/drive/{ID}", "spaces"},
		{"{B}/drive/{ID}\u00a0", "spaces"},
		{"{B}/drive/\xff", "UTF-8"},

		{"--version", "starts with a dash"},
		{"-{ID}", "starts with a dash"},
		{strings.Repeat("x", 4000), "longer than"},
		{strings.Repeat("A", 200), "neither a link"},
		{"{B}/notebooks/" + strings.Repeat("é", 600) + ".ipynb", "becomes longer than"},
	} {
		_, err := ParseLink(expandLink(c.in))
		if c.reason == "" {
			if err != nil {
				t.Errorf("ParseLink(%q): %v", c.in, err)
			}
			continue
		}
		var le *LinkError
		if !errors.As(err, &le) {
			t.Errorf("ParseLink(%.80q) = %v, want a *LinkError", c.in, err)
			continue
		}
		if !strings.Contains(le.Reason, c.reason) || le.Do == "" {
			t.Errorf("ParseLink(%.80q) is refused because %q (do: %q), want %q", c.in, le.Reason, le.Do, c.reason)
		}
		if !strings.Contains(err.Error(), acceptedLinks) {
			t.Errorf("ParseLink(%.80q): %v; it does not list the accepted forms", c.in, err)
		}
	}
}

func TestLocalFileIsToldToUploadOrPush(t *testing.T) {
	for _, in := range []string{"/home/me/n.ipynb", `C:\n.ipynb`, "my-notebook"} {
		_, err := ParseLink(in)
		if err == nil || !strings.Contains(err.Error(), "upload") || !strings.Contains(err.Error(), "push") {
			t.Errorf("ParseLink(%q): %v; it does not say how to get the file to Colab", in, err)
		}
	}
}

// S6
func TestForeignSecretsDoNotSurvive(t *testing.T) {
	for _, in := range []string{
		"https://raw.githubusercontent.com/o/r/main/n.ipynb?token=SECRET",
		"https://github.com/o/r/blob/main/n.ipynb?token=SECRET#SECRET",
		"{B}/github/o/r/blob/main/n.ipynb?access_token=SECRET&authuser=SECRET&resourcekey=SECRET",
		"{B}/drive/{ID}?token=SECRET&%61uthuser=SECRET#mcpProxyToken=SECRET&mcpProxyPort=1",
		"{B}/drive/{ID}#scrollTo=x&mcpProxy%54oken=SECRET",
		"{B}/drive/{ID}#scrollTo=a#mcpProxyToken=SECRET",
		"{B}/drive/{ID}#scrollTo=a%26mcpProxyToken=SECRET",
		"{B}/drive/{ID}?resourcekey=SECRET&authuser=1;token=SECRET",
		"{B}/drive/{ID}?authuser=1%26token%3DSECRET",
		"{B}/#create=true&token=SECRET&language=%53ECRET",
		"https://gist.github.com/u/{GID}?token=SECRET#file-SECRET",
		// Refused ones.
		"https://user:SECRET@github.com/o/r/blob/main/n.ipynb",
		"https://evil.tld/?token=SECRET",
		"https://SECRET.tld/SECRET?SECRET#SECRET",
		"https://github.com/o/r/SECRET?token=SECRET",
		"https://github.com/o/r/blob/%zzSECRET/n.ipynb?token=SECRET",
		"https://[SECRET]:SECRET/",
		"https://colab.research.google.com:SECRET/",
		"SECRET://github.com/",
		"SECRET",
		"-SECRET",
		"/home/SECRET/n.ipynb",
	} {
		l, err := ParseLink(expandLink(in))
		shown := l.Open("TOKEN", 40000) + l.URL() + l.Note() + l.String() + l.Notebook()
		if err != nil {
			shown = err.Error()
		}
		if strings.Contains(strings.ToUpper(shown), "SECRET") || strings.Contains(shown, "%53ECRET") {
			t.Errorf("ParseLink(%q) lets the secret through: %s", in, shown)
		}
	}
}

func TestOpenedLinkCarriesOurTokenLast(t *testing.T) {
	for _, c := range []struct{ in, query, fragment string }{
		{"{B}/drive/{ID}?authuser=1#scrollTo=aB-3", "authuser=1&", "scrollTo=aB-3&"},
		{"{B}/drive/{ID}#mcpProxyToken=OLD&mcpProxyPort=1", "", ""},
		{"https://colab.new", "", "create=true&"},
		{"", "", ""},
	} {
		l, err := ParseLink(expandLink(c.in))
		if err != nil {
			t.Fatal(err)
		}
		page, _, _ := strings.Cut(l.URL(), "#")
		page, _, _ = strings.Cut(page, "?")
		want := page + "?" + c.query + "colab_mcp=" + linkMarker("TOKEN", 40123) + "#" + c.fragment + "mcpProxyToken=TOKEN&mcpProxyPort=40123"
		if got := l.Open("TOKEN", 40123); got != want {
			t.Errorf("opening %q:\n got %s\nwant %s", c.in, got, want)
		}
	}
}

func TestMarkerChangesWithTokenAndPort(t *testing.T) {
	l, err := ParseLink("")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, c := range []struct {
		token string
		port  int
	}{{"TOKEN", 40000}, {"TOKEN", 40001}, {"TOKEO", 40000}, {"TOKEN4", 0}} {
		before, _, _ := strings.Cut(l.Open(c.token, c.port), "#")
		if strings.Contains(before, c.token) {
			t.Errorf("%s shows the token before the #", before)
		}
		if first, ok := seen[before]; ok {
			t.Errorf("%s and %s/%d have the same page: %s", first, c.token, c.port, before)
		}
		seen[before] = c.token
	}
	if first, again := l.Open("TOKEN", 40000), l.Open("TOKEN", 40000); first != again {
		t.Error("the same token and port made two links; a repeat would load the page again")
	}
}

func TestTokenIsEscapedInTheFragment(t *testing.T) {
	l, err := ParseLink("")
	if err != nil {
		t.Fatal(err)
	}
	_, fragment, _ := strings.Cut(l.Open("a&mcpProxyPort=1#%", 40000), "#")
	v, err := url.ParseQuery(fragment)
	if err != nil || v.Get("mcpProxyToken") != "a&mcpProxyPort=1#%" || v.Get("mcpProxyPort") != "40000" {
		t.Errorf("fragment %q reads as %v, %v", fragment, v, err)
	}
}

func TestServes(t *testing.T) {
	for _, c := range []struct {
		open, asked string
		want        bool
	}{
		{"{B}/drive/{ID}", "https://drive.google.com/open?id={ID}", true},
		{"{B}/drive/{ID}#scrollTo=a", "{B}/drive/{ID}#scrollTo=b", true},
		{"{B}/drive/{ID}", "{B}/drive/{ID}x", false},
		{"{B}/drive/{ID}?authuser=1", "{B}/drive/{ID}", true},
		{"{B}/drive/{ID}?authuser=1", "{B}/drive/{ID}?authuser=1", true},
		{"{B}/drive/{ID}", "{B}/drive/{ID}?authuser=1", false},
		{"{B}/drive/{ID}?authuser=0", "{B}/drive/{ID}?authuser=1", false},
		{"{B}/drive/{ID}", "{B}/drive/{ID}?resourcekey=0-x", false},
		{"", "{B}/notebooks/empty.ipynb", true},
		{"", "https://colab.new", false},
		{"https://colab.new", "{B}/#create=true", true},
		{"https://github.com/o/r/blob/a%2Fb/n.ipynb", "https://github.com/o/r/blob/a/b/n.ipynb", false},
	} {
		open, err := ParseLink(expandLink(c.open))
		if err != nil {
			t.Fatal(err)
		}
		asked, err := ParseLink(expandLink(c.asked))
		if err != nil {
			t.Fatal(err)
		}
		if got := open.Serves(asked); got != c.want {
			t.Errorf("a tab opened with %q serves %q: %v, want %v", c.open, c.asked, got, c.want)
		}
	}
}

func TestLinkNotes(t *testing.T) {
	for _, c := range []struct {
		in, note string
		scratch  bool
	}{
		{"", scratchNote, true},
		{"{B}/notebooks/empty.ipynb#scrollTo=a", scratchNote, true},
		{"https://colab.new", createNote, true},
		{"{B}/#create=true", createNote, true},
		{"https://gist.github.com/u/{GID}", "", false},
		{"https://gist.github.com/u/{GID}#file-my-nb-ipynb", gistFileNote, false},
		{"https://raw.githubusercontent.com/o/r/main/n.ipynb?token=SECRET", privateNote, false},
		{"{B}/drive/{ID}", "", false},
	} {
		l, err := ParseLink(expandLink(c.in))
		if err != nil {
			t.Fatal(err)
		}
		if l.Note() != c.note || l.Scratch() != c.scratch {
			t.Errorf("%q: note %q, scratch %v; want %q, %v", c.in, l.Note(), l.Scratch(), c.note, c.scratch)
		}
	}
}
