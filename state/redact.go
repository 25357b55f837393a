package state

import (
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Redactor takes secrets out of text: those added, in every form an address, JSON or a log line gives them, and
// whatever stands where a token does (mcpProxyToken=…, access_token=…, token=…, "token":"…", Bearer …). The zero value
// is ready to use. Safe for concurrent use.
type Redactor struct {
	mu      sync.RWMutex // guards secrets and the replacer made from them
	secrets []string
	known   *strings.Replacer
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
	escaped, _ := json.Marshal(secret) // a string cannot fail
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(escaped), `"`)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range forms {
		if !slices.Contains(r.secrets, f) {
			r.secrets = append(r.secrets, f)
		}
	}
	// Of two at one place the replacer takes the first: let that be the longer.
	slices.SortStableFunc(r.secrets, func(x, y string) int { return len(y) - len(x) })
	var pairs []string
	for _, s := range r.secrets {
		pairs = append(pairs, s, redacted)
	}
	r.known = strings.NewReplacer(pairs...)
}

// Redact returns s without secrets.
func (r *Redactor) Redact(s string) string {
	r.mu.RLock()
	known := r.known
	r.mu.RUnlock()
	if known != nil {
		s = known.Replace(s)
	}
	s = tokenValue.ReplaceAllString(s, "${1}"+redacted)
	return bearerValue.ReplaceAllString(s, "${1}"+redacted)
}

// Writer redacts each Write on its way to w. A secret split over two writes is not seen: write whole lines.
func (r *Redactor) Writer(w io.Writer) io.Writer { return redactingWriter{r, w} }

type redactingWriter struct {
	r *Redactor
	w io.Writer
}

func (w redactingWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.r.Redact(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
