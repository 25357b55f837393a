package bridge

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLinkLen bounds the input and the resulting URL, in bytes. Browsers take more; notebooks need
// less.
const maxLinkLen = 2048

// pastedLink is a link taken apart and nothing decoded: decoding and encoding again would turn the
// %2F of a branch into a slash.
type pastedLink struct {
	segs     []string // the escaped path, split at its slashes
	query    string   // raw
	fragment string   // escaped
}

// linkHosts holds every host a notebook link may have, exactly.
var linkHosts = map[string]func(pastedLink) (Link, error){
	"colab.research.google.com": colabLink,
	"colab.google.com":          colabLink,
	"colab.new":                 colabNewLink,
	"drive.google.com":          driveLink,
	"docs.google.com":           docsLink,
	"github.com":                githubLink,
	"raw.githubusercontent.com": githubRawLink,
	"gist.github.com":           gistLink,
	"nbviewer.org":              nbviewerLink,
	"nbviewer.jupyter.org":      nbviewerLink,
}

// ParseLink turns what a user or an agent pasted into the Colab link of that notebook; the empty
// string is a new scratch notebook. The error is a *LinkError.
func ParseLink(s string) (Link, error) {
	if len(s) > maxLinkLen {
		return Link{}, refuseLink(fmt.Sprintf("it is longer than %d characters", maxLinkLen), "give the plain link of the notebook")
	}
	s = strings.Trim(s, " \t\r\n")
	if s == "" {
		return ScratchLink(), nil
	}
	if err := checkLinkText(s); err != nil {
		return Link{}, err
	}
	if bareDriveID(s) {
		return Link{path: "/drive/" + s}, nil
	}
	host, p, err := splitLink(s)
	if err != nil {
		return Link{}, err
	}
	parse, ok := linkHosts[host]
	if !ok {
		return Link{}, refuseLink("its host is none that notebooks are opened from", "copy the link from Colab, Google Drive or GitHub")
	}
	l, err := parse(p)
	if err != nil {
		return Link{}, err
	}
	if len(l.URL()) > maxLinkLen {
		return Link{}, refuseLink(fmt.Sprintf("it becomes longer than %d characters", maxLinkLen), "rename the notebook or move it up")
	}
	return l, nil
}

// checkLinkText refuses text that a browser, a terminal or a command line would read differently
// than we do.
func checkLinkText(s string) error {
	switch {
	case !utf8.ValidString(s):
		return refuseLink("it is not valid UTF-8", "copy the link again")
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		return refuseLink("it contains control characters", "copy the link again, on one line")
	case strings.HasPrefix(s, "-"):
		return refuseLink("it starts with a dash", "give a link, not an option")
	case isLocalPath(s):
		return refuseLink("it is a local file, and Colab opens only what it can reach",
			"upload the file to Google Drive or push it to GitHub first and give that link")
	case strings.IndexFunc(s, unicode.IsSpace) >= 0:
		return refuseLink("it contains spaces", "give one link, with %20 for each space in it")
	case strings.Contains(s, `\`):
		return refuseLink("it contains a backslash", "use slashes")
	}
	return nil
}

var driveLetter = regexp.MustCompile(`^[A-Za-z]:[\\/]`)

func isLocalPath(s string) bool {
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~") || strings.HasPrefix(s, ".") || strings.HasPrefix(s, `\\`) ||
		driveLetter.MatchString(s) || strings.HasPrefix(strings.ToLower(s), "file:") {
		return true
	}
	return strings.HasSuffix(s, ".ipynb") && !strings.Contains(s, ":") && !hasLinkHost(s)
}

// hasLinkHost reports whether s starts with one of our hosts, as in github.com/o/r.
func hasLinkHost(s string) bool {
	host := s
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		host = s[:i]
	}
	_, ok := linkHosts[strings.ToLower(host)]
	return ok
}

// splitLink takes s apart; the host is in lower case and otherwise as written.
func splitLink(s string) (host string, p pastedLink, err error) {
	if !strings.Contains(s, "://") {
		if !hasLinkHost(s) {
			return "", p, refuseLink("it is neither a link nor a Drive file id",
				"give the notebook's link; a notebook that is only on this machine is uploaded to Google Drive or pushed to GitHub first")
		}
		s = "https://" + s
	}
	u, err := url.Parse(escapeUnsafe(s))
	if err != nil { // its text quotes the input
		return "", p, refuseLink("it is malformed", "copy the link again")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "", p, refuseLink("it is not an https link", "give an https link")
	case u.User != nil:
		return "", p, refuseLink("it has a user name before the host", "remove everything between https:// and the host")
	case strings.Contains(u.Host, ":"):
		return "", p, refuseLink("it has a port", "remove the colon and what follows it from the host")
	}
	p.query, p.fragment = u.RawQuery, u.EscapedFragment()
	// EscapedPath is the path as written, because escapeUnsafe left nothing to escape.
	path := strings.TrimPrefix(u.EscapedPath(), "/")
	if path = strings.TrimSuffix(path, "/"); path == "" {
		return strings.ToLower(u.Host), p, nil
	}
	p.segs = strings.Split(path, "/")
	for _, seg := range p.segs {
		if !plainSegment(seg) {
			return "", p, refuseLink("its path has an empty part, a . or .. or an encoded control character", "give the plain link of the notebook")
		}
	}
	return strings.ToLower(u.Host), p, nil
}

// escapeUnsafe percent-encodes what must not stand in a URL, as a browser does, and touches nothing
// else.
func escapeUnsafe(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || strings.IndexByte("\"<>[]^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// encodedControl matches C0 controls and DEL.
var encodedControl = regexp.MustCompile(`%([01][0-9A-Fa-f]|7[Ff])`)

// plainSegment refuses path segments that servers and browsers rewrite; for a browser %2e is a dot
// (WHATWG URL, "double-dot URL path segment").
func plainSegment(seg string) bool {
	dots := strings.ReplaceAll(strings.ToLower(seg), "%2e", ".")
	return dots != "" && dots != "." && dots != ".." && !encodedControl.MatchString(seg)
}

// pairValue is the value of the first key=value in pairs, undecoded. An encoded key is not found,
// and so not kept either.
func pairValue(pairs, key string) string {
	for pair := range strings.SplitSeq(pairs, "&") {
		if k, v, _ := strings.Cut(pair, "="); k == key {
			return v
		}
	}
	return ""
}
