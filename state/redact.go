package state

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Redactor takes secrets out of text: those added, in every form an address, JSON or a log line gives them, and
// whatever stands where a token does (mcpProxyToken=…, access_token=…, token=…, "token":"…", Bearer …). It does not
// see a secret in base64 or in bytes printed as numbers. The zero value is ready to use. Safe for concurrent use.
type Redactor struct {
	mu      sync.RWMutex // guards secrets and the pattern made from them
	secrets []string
	known   *regexp.Regexp
}

const redacted = "[redacted]"

// What follows the name may be quoted, escaped once or more, or percent-encoded.
var (
	tokenValue  = regexp.MustCompile(`(?i)((?:mcpProxyToken|access_token|\btoken|\bsecret|\bpassword)(?:=|%3d|\\*"\s*:\s*)\\*"?)[^&\s"'<>\\#;,(){}\[\]]+`)
	bearerValue = regexp.MustCompile(`(?i)(\bbearer(?:\s|%20|\+)+)[\w.~+/=-]+`)
)

// Add has secret redacted from now on. An empty one is ignored.
func (r *Redactor) Add(secret string) {
	if secret == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.secrets, secret) {
		return
	}
	r.secrets = append(r.secrets, secret)
	// Of two at one place the first is taken: let that be the longer.
	slices.SortStableFunc(r.secrets, func(x, y string) int { return len(y) - len(x) })
	var forms []string
	for _, s := range r.secrets {
		forms = append(forms, inAnyForm(s))
	}
	r.known = regexp.MustCompile(strings.Join(forms, "|"))
}

// inAnyForm is a pattern for s as it is, quoted in JSON or by Go, percent-encoded, or all of these several times over.
func inAnyForm(s string) string {
	var p strings.Builder
	for _, c := range s {
		if c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) {
			p.WriteRune(c)
			continue
		}
		fmt.Fprintf(&p, `(?:%s*(?:%s|(?i:u%04x|x%02x))`, encoded('\\'), encoded(c), c, c)
		if c == ' ' {
			p.WriteString("|" + encoded('+'))
		}
		p.WriteString(")")
	}
	return p.String()
}

// encoded is a pattern for c, percent-encoded any number of times.
func encoded(c rune) string {
	percent := ""
	for _, b := range []byte(string(c)) {
		percent += fmt.Sprintf("%%(?:25)*(?i:%02x)", b)
	}
	return "(?:" + percent + "|" + regexp.QuoteMeta(string(c)) + ")" // the longer first: c may be a %
}

// Redact returns s without secrets.
func (r *Redactor) Redact(s string) string {
	r.mu.RLock()
	known := r.known
	r.mu.RUnlock()
	if known != nil {
		s = known.ReplaceAllLiteralString(s, redacted)
	}
	s = tokenValue.ReplaceAllString(s, "${1}"+redacted)
	return bearerValue.ReplaceAllString(s, "${1}"+redacted)
}

// Writer redacts each Write on its way to w and cuts it at 64 KiB. A secret split over two writes is not seen: write
// whole lines.
func (r *Redactor) Writer(w io.Writer) io.Writer { return redactingWriter{r, w} }

type redactingWriter struct {
	r *Redactor
	w io.Writer
}

const (
	lineSize = 64 << 10
	lineEdge = 4 << 10 // longer than a secret: one that the cut goes through is not recognised, so this much is dropped
)

func (w redactingWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.line(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w redactingWriter) line(p []byte) string {
	if len(p) <= lineSize+lineEdge {
		return w.r.Redact(string(p))
	}
	s := w.r.Redact(string(p[:lineSize+lineEdge]))
	end := max(0, len(s)-lineEdge)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s… about %d bytes more\n", s[:end], len(p)-lineSize)
}
