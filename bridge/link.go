package bridge

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

const (
	// colabOrigin is where every accepted link leads.
	colabOrigin = "https://colab.research.google.com"

	// scratchPath is Colab's blank notebook; it belongs to nobody until it is saved.
	scratchPath = "/notebooks/empty.ipynb"

	// linkMarkerKey is a query key that Colab ignores. Chrome may focus an existing tab when two
	// links differ in the fragment only, so what is before the # has to change with the token.
	linkMarkerKey = "colab_mcp"
)

// Link is a notebook link that ParseLink accepted. Everything in it is safe to show: query and
// fragment keys that were not known to be harmless are gone. It is a value; use it from anywhere.
type Link struct {
	path     string // escaped, below colabOrigin
	query    string // authuser and resourcekey, in this order
	fragment string // the page's own keys, such as scrollTo
	note     string
}

// ScratchLink is what no link at all stands for: a new scratch notebook.
func ScratchLink() Link { return Link{path: scratchPath, note: scratchNote} }

// URL is the link as it is shown, logged and reported: without marker and token.
func (l Link) URL() string { return l.url(l.query, l.fragment) }

// String is URL, so that a logged Link is one.
func (l Link) String() string { return l.URL() }

// Open is the link for the browser: the page dials back to port and presents token. It is the only
// place the token is in; do not log it.
func (l Link) Open(token string, port int) string {
	query := linkMarkerKey + "=" + linkMarker(token, port)
	if l.query != "" {
		query = l.query + "&" + query
	}
	fragment := "mcpProxyToken=" + url.QueryEscape(token) + "&mcpProxyPort=" + strconv.Itoa(port)
	if l.fragment != "" {
		fragment = l.fragment + "&" + fragment
	}
	return l.url(query, fragment)
}

// Note says what the user should know about the link, in words; "" when there is nothing.
func (l Link) Note() string { return l.note }

// Scratch reports whether every opening of the link makes a new, blank notebook.
func (l Link) Scratch() bool { return l.path == scratchPath || l.path == "/" }

// Notebook names the notebook: two links with the same name lead to the same one, whatever the
// account and the cell they point at.
func (l Link) Notebook() string { return colabOrigin + l.path }

// Serves reports whether a tab opened with l is what asked wants: the same notebook, and the
// account and resource key that asked names, if it names any. It is not symmetric: a tab opened for
// account 1 serves a link without an account, not the other way round.
func (l Link) Serves(asked Link) bool {
	if l.Notebook() != asked.Notebook() {
		return false
	}
	for _, key := range []string{"authuser", "resourcekey"} {
		want := pairValue(asked.query, key)
		if want != "" && want != pairValue(l.query, key) {
			return false
		}
	}
	return true
}

func (l Link) url(query, fragment string) string {
	var b strings.Builder
	b.WriteString(colabOrigin)
	b.WriteString(l.path)
	if query != "" {
		b.WriteString("?" + query)
	}
	if fragment != "" {
		b.WriteString("#" + fragment)
	}
	return b.String()
}

// linkMarker changes with token and port and is too short to say anything about them.
func linkMarker(token string, port int) string {
	sum := sha256.Sum256([]byte("colab-mcp link marker\x00" + token + "\x00" + strconv.Itoa(port)))
	return fmt.Sprintf("%x", sum[:5])
}

// LinkError says why a link was refused. Its text never contains a part of the input, which may
// carry a secret.
type LinkError struct {
	Reason string // what the input is, or what it lacks
	Do     string // what to do about it
}

// acceptedLinks is in the words of every refusal.
const acceptedLinks = "accepted: a Colab link (" + colabOrigin + "/drive/ID, /github/…, /gist/…, /notebooks/…), " +
	"a Google Drive file link or file id, a github.com, raw.githubusercontent.com or nbviewer.org link to an .ipynb file, " +
	"a gist link, https://colab.new, or nothing for a new scratch notebook"

func (e *LinkError) Error() string {
	return "not a notebook link: " + e.Reason + "; " + e.Do + "; " + acceptedLinks
}

func refuseLink(reason, do string) error { return &LinkError{Reason: reason, Do: do} }
