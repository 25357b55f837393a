package bridge_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// six skips where the machine has no ::1.
func six(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("no ::1 on this machine: %v", err)
	}
	l.Close()
}

func shut(t *testing.T, ls []net.Listener) {
	t.Cleanup(func() {
		for _, l := range ls {
			l.Close()
		}
	})
}

// halfTaken is a stranger on one family, 0 for IPv4, of a port that is free on the other: what the system chooses for one may
// be somebody's there.
func halfTaken(t *testing.T, family int) net.Listener {
	t.Helper()
	ls, err := bridge.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range ls {
		if i != family {
			l.Close()
		}
	}
	return ls[family]
}

// L11, S3
func TestListenTakesOnePortOfBothFamilies(t *testing.T) {
	six(t)
	ls, err := bridge.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	shut(t, ls)
	if len(ls) != 2 {
		t.Fatalf("%d listeners", len(ls))
	}
	var hosts, ports []string
	for _, l := range ls {
		host, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		hosts, ports = append(hosts, host), append(ports, port)
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			t.Errorf("listening on %s, which is not loopback", host)
		}
	}
	if ports[0] != ports[1] || hosts[0] == hosts[1] {
		t.Errorf("listening on %v, ports %v", hosts, ports)
	}
}

// L11: a stranger on one family would be given the token.
func TestListenRefusesAPortFreeOnOneFamilyOnly(t *testing.T) {
	six(t)
	for i, other := range []string{"[::1]", "127.0.0.1"} {
		stranger := halfTaken(t, i)
		port := stranger.Addr().(*net.TCPAddr).Port
		ls, err := bridge.Listen(port)
		shut(t, ls)
		var taken *bridge.PortError
		if !errors.As(err, &taken) || taken.Port != port || len(ls) != 0 {
			t.Errorf("%s is taken: %d listeners, %v", stranger.Addr(), len(ls), err)
		}
		// And the other family is free again.
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", other, port))
		if err != nil {
			t.Errorf("the failed try left %s taken: %v", other, err)
		} else {
			l.Close()
		}
		stranger.Close()
	}
}

// L11, L13: what browsers refuse is never chosen, and a busy pinned port is told with its number.
func TestBusyPinnedPortIsToldAndMCPLivesOn(t *testing.T) {
	stranger := halfTaken(t, 0)
	port := stranger.Addr().(*net.TCPAddr).Port
	b := bridge.New(bridge.Options{Identity: bridge.NewIdentity(port), Pinned: true})
	t.Cleanup(b.Close)
	var taken *bridge.PortError
	if err := b.Start(); !errors.As(err, &taken) || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Fatalf("start: %v", err)
	}
	if _, err := b.Open(t.Context(), bridge.Ask{}); !errors.As(err, &taken) {
		t.Errorf("open: %v", err)
	}
	if s := b.Status(); s.Listening == nil || s.State != "disconnected" {
		t.Errorf("status %+v", s)
	}
	stranger.Close()
	if err := b.Start(); err != nil {
		t.Errorf("once it is free: %v", err)
	}
	if s := b.Status(); s.Port != port || s.Listening != nil {
		t.Errorf("status %+v", s)
	}
}

// L13: a saved port that somebody else has is replaced; the somebody is left alone.
func TestBusySavedPortIsReplaced(t *testing.T) {
	stranger, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	port := stranger.Addr().(*net.TCPAddr).Port
	b := bridge.New(bridge.Options{Identity: bridge.NewIdentity(port)})
	t.Cleanup(b.Close)
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	if s := b.Status(); s.Port == port || s.Port == 0 {
		t.Errorf("status %+v", s)
	}
	if c, err := net.Dial("tcp", stranger.Addr().String()); err != nil {
		t.Errorf("the stranger was harmed: %v", err)
	} else {
		c.Close()
	}
}

// L11, S3, L14: tabs come by either family, over real sockets; after Close the port is free.
func TestTabsComeByEitherFamily(t *testing.T) {
	six(t)
	d := newDesk(t, bridge.Options{Listen: bridge.Listen})
	id, _ := d.Identity()
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]"} {
		raw := tabtest.RawOf(nil, d.link())
		raw.Host = fmt.Sprintf("%s:%d", host, id.Port)
		conn, resp, err := raw.Dial(t.Context())
		if err != nil {
			t.Fatalf("%s: %v, %v", host, resp, err)
		}
		conn.CloseNow()
	}
	d.Close()
	ls, err := bridge.Listen(id.Port)
	shut(t, ls)
	if err != nil {
		t.Errorf("the port is not free after Close: %v", err)
	}
}
