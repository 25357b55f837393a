package bridge

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The two origins of Colab pages.
var colabOrigins = []string{"https://colab.research.google.com", "https://colab.google.com"}

// refusal is why a request is not let in: an HTTP status and a word for it.
type refusal struct {
	status int
	reason string
}

var (
	wrongHost   = refusal{http.StatusForbidden, "the Host header is not this machine's loopback and port"}
	wrongOrigin = refusal{http.StatusForbidden, "the Origin is not Colab's"}
	noToken     = refusal{http.StatusUnauthorized, "no access_token"}
	badHeader   = refusal{http.StatusBadRequest, "the Authorization header has another scheme than Bearer, or no token"}
	wrongToken  = refusal{http.StatusForbidden, "the token is not this server's: a tab from an earlier link"}
	noUpgrade   = refusal{http.StatusBadRequest, "not a WebSocket request with subprotocol mcp"}
)

// admit decides on everything that can be known before the upgrade. The
// browser vouches for Origin and Host, the token for the tab.
func admit(r *http.Request, port int, id Identity) (refusal, bool) {
	switch {
	case !ownHost(r.Host, port):
		return wrongHost, false
	case len(r.Header.Values("Origin")) != 1 || !slices.Contains(colabOrigins, r.Header.Get("Origin")):
		return wrongOrigin, false
	}
	token, why, ok := credential(r)
	switch {
	case !ok:
		return why, false
	case !id.holds(token):
		return wrongToken, false
	case r.Method != http.MethodGet || !offersMCP(r.Header):
		return noUpgrade, false
	}
	return refusal{}, true
}

// ownHost defeats DNS rebinding: a page of another site that resolves to
// loopback still says its own name.
func ownHost(hostport string, port int) bool {
	host, p, err := net.SplitHostPort(hostport)
	if err != nil || p != strconv.Itoa(port) {
		return false
	}
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// credential is the one token the request brings, in the query or as a bearer
// (RFC 6750), which only programs outside a browser can send.
func credential(r *http.Request) (token string, why refusal, ok bool) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", noToken, false
	}
	tokens := query["access_token"]
	for _, h := range r.Header.Values("Authorization") {
		scheme, bearer, found := strings.Cut(h, " ")
		if !found || !strings.EqualFold(scheme, "Bearer") || bearer == "" {
			return "", badHeader, false
		}
		tokens = append(tokens, bearer)
	}
	switch len(tokens) {
	case 0:
		return "", noToken, false
	case 1:
		return tokens[0], refusal{}, true
	}
	return "", wrongToken, false
}

// offersMCP reports whether a WebSocket client offers the subprotocol mcp
// (RFC 6455, 11.3.4).
func offersMCP(h http.Header) bool {
	for _, v := range h.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(v, ",") {
			if strings.TrimSpace(p) == "mcp" {
				return true
			}
		}
	}
	return false
}
