package bridge

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// C2: a list that changes while the opener waits to show it is not put back.
func TestOpenerShowsTheListOfTheMoment(t *testing.T) {
	p, _ := deafPeer()
	tab := &Tab{peer: p}
	tab.setTools([]Tool{{Name: "old"}})
	b := New(Options{})
	defer b.stop()
	b.st.bound, b.st.slot = true, &session{tab: tab, ready: true}
	tb := &Toolbox{Server: mcp.NewServer(&mcp.Implementation{Name: "s"}, nil), Bridge: b}

	tb.live.mu.Lock()
	gone, leave := context.WithCancel(t.Context())
	leave() // it need not wait for the client's list
	opened := make(chan error, 1)
	go func() {
		_, err := tb.open(gone, &Call{Progress: new(Progress)}, openParams{})
		opened <- err
	}()
	time.Sleep(20 * time.Millisecond) // long enough, mostly, for the opener to wait
	tab.setTools([]Tool{{Name: "new"}})
	tb.live.mu.Unlock()
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if !tb.Lists("new") {
		t.Error("the opener shows the list of before")
	}
}
