package stdio

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Take returns the process's real stdout, for [Transport.Out], and points os.Stdout at stderr so that a
// stray print cannot break the protocol. It also keeps SIGPIPE from ending the process, so that an agent
// that closes our stdout makes a write fail with EPIPE. Call it before anything prints; every call
// returns the same file.
func Take() *os.File { return take() }

var take = sync.OnceValue(func() *os.File {
	// Caught rather than ignored: an ignored signal stays ignored in the programs we start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	out := os.Stdout
	os.Stdout = os.Stderr
	return out
})
