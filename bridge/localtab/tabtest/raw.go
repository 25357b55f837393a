package tabtest

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// past is a deadline that has gone by, in a bubble too, whose clock starts in 2000.
var past = time.Unix(1, 0)

// A Raw is a dial without a tab behind it, to knock at the bridge's door: each part of what a page sends
// can be wrong. Start from [RawOf] and change one.
type Raw struct {
	Net          *Net   // nil is the real loopback
	Host         string // address to dial, for example "localhost:49152"
	HostHeader   string // Host header; "" is Host
	Path         string // with the query, which carries the token
	Subprotocols []string
	Header       http.Header // Origin is in it
}

// RawOf returns the dial that a page would make for link.
func RawOf(n *Net, link string) Raw {
	_, fragment, _ := strings.Cut(link, "#")
	q, err := url.ParseQuery(fragment)
	if err != nil || q.Get("mcpProxyPort") == "" {
		panic("tabtest: a link without port and token")
	}
	return Raw{
		Net:          n,
		Host:         "localhost:" + q.Get("mcpProxyPort"),
		Path:         "/?access_token=" + url.QueryEscape(q.Get("mcpProxyToken")),
		Subprotocols: []string{"mcp"},
		Header:       http.Header{"Origin": {"https://colab.research.google.com"}},
	}
}

// Dial makes the connection. The response is there whenever the bridge answered; its body is cut at 1 KiB.
func (r Raw) Dial(ctx context.Context) (*websocket.Conn, *http.Response, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if r.Net != nil {
		transport.DialContext = r.Net.Dial
	}
	defer transport.CloseIdleConnections()
	return websocket.Dial(ctx, "ws://"+r.Host+r.Path, &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: transport},
		HTTPHeader:   r.Header,
		Host:         r.HostHeader,
		Subprotocols: r.Subprotocols,
	})
}
