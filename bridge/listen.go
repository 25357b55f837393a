package bridge

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
)

// PortError says that a port could not be had on the loopback addresses. The
// bridge keeps serving its agent and tries again when a tab is opened.
type PortError struct {
	Port int
	Err  error
}

func (e *PortError) Error() string {
	return fmt.Sprintf("cannot listen on port %d of 127.0.0.1 and ::1: %v", e.Port, e.Err)
}

func (e *PortError) Unwrap() error { return e.Err }

// tries bounds the search for a port that is free on both families.
const tries = 32

// Listen binds one port on 127.0.0.1 and on ::1, since a browser may take
// either for localhost: a port free on one family only is not used, or a
// stranger on the other would be given the token. Port 0 means any port that
// browsers do not refuse. A machine without ::1 gets IPv4 alone.
//
// The error is a *[PortError].
func Listen(port int) ([]net.Listener, error) {
	if port != 0 {
		return listenBoth(port)
	}
	var last error
	for range tries {
		ls, err := listenBoth(0)
		if err == nil && !UnsafePort(portOf(ls[0])) {
			return ls, nil
		}
		for _, l := range ls {
			l.Close()
		}
		last = err
	}
	return nil, &PortError{Err: fmt.Errorf("no free port in %d tries: %w", tries, last)}
}

func listenBoth(port int) ([]net.Listener, error) {
	v4, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, &PortError{port, err}
	}
	port = portOf(v4)
	v6, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	switch {
	case err == nil:
		return []net.Listener{v4, v6}, nil
	case noIPv6(err):
		return []net.Listener{v4}, nil
	}
	v4.Close()
	return nil, &PortError{port, err}
}

// noIPv6 tells a machine without ::1 from one where somebody else has the port.
func noIPv6(err error) bool {
	return slices.ContainsFunc(noFamily, func(no error) bool { return errors.Is(err, no) })
}

func portOf(l net.Listener) int {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}
