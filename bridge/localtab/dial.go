package localtab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/coder/websocket"
)

// origin is the page a Colab notebook lives on; browsers send it and pages cannot change it.
const origin = "https://colab.research.google.com"

// A RefusedError reports that the bridge answered the dial with something other than an upgrade.
type RefusedError struct {
	Status int    // HTTP status, for example 403 for a token that is no longer valid
	Reason string // first line of the body
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the bridge refused the tab with status %d (%s); open the newest link", e.Status, e.Reason)
}

// Dial connects to the bridge that link names, exactly as Colab's page does. The caller hands the
// connection to [Tab.Serve]. Errors carry no token: a [RefusedError], [ErrLink], or a network error.
func (t *Tab) Dial(ctx context.Context, link string) (*websocket.Conn, error) {
	to, err := parseLink(link)
	if err != nil {
		return nil, err
	}
	dial := t.o.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	// No proxy: a browser does not use one for localhost.
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	addr := "localhost:" + strconv.Itoa(to.port)
	conn, resp, err := websocket.Dial(ctx, "ws://"+addr+"/?access_token="+url.QueryEscape(to.token), &websocket.DialOptions{
		HTTPClient:      &http.Client{Transport: transport},
		HTTPHeader:      http.Header{"Origin": {origin}},
		Subprotocols:    []string{"mcp"},
		CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err == nil:
		return conn, nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		body, _ := io.ReadAll(resp.Body) // the library keeps the first KiB
		reason, _, _ := strings.Cut(string(body), "\n")
		return nil, &RefusedError{Status: resp.StatusCode, Reason: strings.TrimSpace(reason)}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // u itself quotes the URL and with it the token
	}
	return nil, fmt.Errorf("dial the bridge at %s: %w", addr, err)
}
