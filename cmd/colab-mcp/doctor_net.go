package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge"
	"colab-mcp/state"
)

// netTime bounds one exchange on loopback.
const netTime = 10 * time.Second

// examineLoopback binds a port on both families and calls it.
func examineLoopback(ctx context.Context, _ *settings) []check {
	c := check{Name: "loopback"}
	ls, err := bridge.Listen(0)
	if err != nil {
		c.Verdict, c.Detail = failing, err.Error()
		c.Cure = "Let programs listen on 127.0.0.1 and ::1: look at firewall, container and sandbox settings"
		return []check{c, examineName(ctx)}
	}
	var names []string
	for _, l := range ls {
		names = append(names, l.Addr().String())
		if err := call(ctx, l); err != nil {
			c.Verdict, c.Cure = failing, "Something stands between this machine and itself: look at the firewall"
			c.Detail = fmt.Sprintf("%s does not answer: %v", l.Addr(), err)
		}
	}
	for _, l := range ls {
		l.Close()
	}
	if c.Verdict == "" {
		c.Verdict, c.Detail = fine, strings.Join(names, " and ")+" can be listened on and reached"
		if len(ls) == 1 {
			c.Detail += " (this machine has no ::1)"
		}
	}
	return []check{c, examineName(ctx)}
}

// call connects to a listener and takes the connection.
func call(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithTimeout(ctx, netTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	taken := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		taken <- err
	}()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		l.Close()
		<-taken
		return err
	}
	return errors.Join(<-taken, c.Close())
}

// examineName looks at what localhost means, which is where a tab dials.
func examineName(ctx context.Context) check {
	addrs, err := net.DefaultResolver.LookupHost(ctx, "localhost")
	c := check{"localhost", fine, "the name means " + strings.Join(addrs, " and "), ""}
	if err != nil {
		c.Verdict, c.Detail = doubt, fmt.Sprintf("the name is not known: %v", err)
	}
	for _, a := range addrs {
		if ip := net.ParseIP(a); ip == nil || !ip.IsLoopback() {
			c.Verdict = doubt
		}
	}
	if c.Verdict == doubt {
		c.Cure = `Put "127.0.0.1 localhost" and "::1 localhost" into the hosts file: a tab dials that name`
	}
	return c
}

// examinePort looks at the port that the next server wants. It binds nothing
// that a starting server could miss, unless the system does not tell who
// listens.
func examinePort(_ context.Context, s *settings) []check {
	c := check{Name: "port", Verdict: fine}
	port, pinned := int(s.Port), s.Port != 0
	var kept connection
	if _, err := state.Peek(s.StateDir, connectionFile, connectionVersion, &kept); err == nil && !pinned {
		port = kept.Port
	}
	if port == 0 {
		c.Detail = "any free one is taken at the first start"
		return []check{c}
	}
	running, _ := state.Inspect(s.StateDir)
	who, busy := listener(port)
	if !busy && running.PID == 0 {
		busy = !free(port)
	}
	switch {
	case !busy:
		c.Detail = fmt.Sprintf("%d is free", port)
	case who.pid != 0 && who.pid == running.PID:
		c.Detail = fmt.Sprintf("%d is the running server's", port)
	default:
		c.Verdict = doubt
		c.Detail = fmt.Sprintf("%d is taken by %s", port, who)
		c.Cure = "A server that starts now takes another port: tabs opened before must be opened again"
		if pinned {
			c.Verdict, c.Cure = failing, "End that program, or choose another --port"
		}
	}
	return []check{c}
}

// owner is who listens on a port.
type owner struct {
	pid  int // 0 if not known
	name string
}

func (o owner) String() string {
	switch {
	case o.pid == 0:
		return "a program that the system does not name"
	case o.name == "":
		return fmt.Sprintf("process %d", o.pid)
	}
	return fmt.Sprintf("process %d (%s)", o.pid, o.name)
}

func free(port int) bool {
	ls, err := bridge.Listen(port)
	for _, l := range ls {
		l.Close()
	}
	return err == nil
}

// examineHandshake is a tab that dials a real bridge: on each family it is let
// in, with a wrong origin or token it is not.
func examineHandshake(ctx context.Context, _ *settings) []check {
	c := check{"handshake", fine, "", ""}
	b := bridge.New(bridge.Options{Version: version})
	defer b.Close()
	if err := b.Start(); err != nil {
		return []check{{"handshake", failing, err.Error(), "See loopback above"}}
	}
	id, _ := b.Identity()
	var families []string
	for _, host := range []string{"127.0.0.1", "::1"} {
		d := dialer{net.JoinHostPort(host, strconv.Itoa(id.Port)), colabOrigin, id}
		err := d.enter(ctx)
		if host == "::1" && errors.Is(err, errUnreachable) && len(families) > 0 {
			continue // loopback says whether there is one
		}
		if err != nil {
			return []check{{"handshake", failing, fmt.Sprintf("a tab with the right token is not let in on %s: %v", host, err), "Report this with the output of colab-mcp doctor --json"}}
		}
		families = append(families, host)
	}
	stranger := dialer{net.JoinHostPort("127.0.0.1", strconv.Itoa(id.Port)), "https://example.com", id}
	stale := stranger
	stale.origin, stale.id = colabOrigin, bridge.NewIdentity(id.Port)
	for what, d := range map[string]dialer{"another site": stranger, "a tab with an old token": stale} {
		var refused refusedError
		if err := d.enter(ctx); !errors.As(err, &refused) || refused.status != http.StatusForbidden {
			return []check{{"handshake", failing, fmt.Sprintf("%s is not turned away with 403: %v", what, err), "Do not use this build, and report it"}}
		}
	}
	c.Detail = "a tab is let in on " + strings.Join(families, " and ") + "; another site and an old token are not"
	return []check{c}
}

const colabOrigin = "https://colab.research.google.com"

// dialer is a tab that says its name to addr.
type dialer struct {
	addr   string
	origin string
	id     bridge.Identity
}

var errUnreachable = errors.New("not reachable")

// refusedError is an HTTP answer instead of an upgrade.
type refusedError struct{ status int }

func (e refusedError) Error() string { return fmt.Sprintf("HTTP status %d", e.status) }

// enter dials and waits for the server's first message.
func (d dialer) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, netTime)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, d.addr)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnreachable, err)
		}
		return c, nil
	}}
	defer transport.CloseIdleConnections()
	conn, resp, err := websocket.Dial(ctx, fmt.Sprintf("ws://localhost:%d/?access_token=%s", d.id.Port, d.id.Token), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: http.Header{"Origin": {d.origin}}, Subprotocols: []string{"mcp"},
	})
	switch {
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return refusedError{resp.StatusCode}
	case errors.Is(err, errUnreachable):
		return errUnreachable // the rest of the error quotes the token
	case err != nil:
		return errors.New("the upgrade failed")
	}
	defer conn.CloseNow()
	_, frame, err := conn.Read(ctx)
	if err != nil {
		return fmt.Errorf("no first message: %w", err)
	}
	if !strings.Contains(string(frame), `"method":"initialize"`) {
		return fmt.Errorf("the first message is not initialize but %.60q", frame)
	}
	return conn.Close(websocket.StatusGoingAway, "")
}
