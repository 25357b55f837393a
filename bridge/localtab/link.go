package localtab

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// ErrLink is matched by the errors for a link that does not say where to dial.
var ErrLink = errors.New("not a link of colab-mcp")

// A target is what a page learns from the fragment of its link.
type target struct {
	token string
	port  int
}

// parseLink reads mcpProxyToken and mcpProxyPort from the fragment of link, as Colab does, and leaves
// the other keys alone. Its errors never quote the link, which carries the token.
func parseLink(link string) (target, error) {
	const want = "expected a URL that ends in #mcpProxyToken=TOKEN&mcpProxyPort=PORT, as printed by colab-mcp"
	u, err := url.Parse(link)
	if err != nil {
		return target{}, fmt.Errorf("%w: it is not a URL; %s", ErrLink, want)
	}
	q, err := url.ParseQuery(u.EscapedFragment())
	if err != nil {
		return target{}, fmt.Errorf("%w: its fragment cannot be read; %s", ErrLink, want)
	}
	t := target{token: q.Get("mcpProxyToken")}
	if t.token == "" {
		return target{}, fmt.Errorf("%w: mcpProxyToken is missing; %s", ErrLink, want)
	}
	t.port, err = strconv.Atoi(q.Get("mcpProxyPort"))
	if err != nil || t.port < 1 || t.port > 65535 {
		return target{}, fmt.Errorf("%w: mcpProxyPort is not a port; %s", ErrLink, want)
	}
	return t, nil
}
