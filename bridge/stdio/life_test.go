package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge/stdio"
)

func TestEndOfStdinEndsTheSessionAndItsHandlers(t *testing.T) { // L14
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{}, 1)
		c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{"park": park(ended)})
		c.call("1", "park", "")
		synctest.Wait()
		c.stdin.Close()
		if err := c.session.Wait(); err != nil {
			t.Errorf("the session ended with %v", err)
		}
		if len(ended) != 1 {
			t.Error("the handler was not cancelled")
		}
		if n := c.transport.Kept(); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
	})
}

func TestEndOfStdinWaitsForAnswersButNotForLong(t *testing.T) { // L14
	for _, test := range []struct{ work, ends time.Duration }{
		{100 * time.Millisecond, 100 * time.Millisecond},
		{time.Hour, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := connect(t, &stdio.Transport{Linger: time.Second}, map[string]mcp.ToolHandler{
				"work": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					select {
					case <-time.After(test.work):
					case <-ctx.Done():
					}
					return text("done"), nil
				},
			})
			start := time.Now()
			c.call("1", "work", "")
			c.stdin.Close()
			if err := c.session.Wait(); err != nil {
				t.Errorf("the session ended with %v", err)
			}
			if d := time.Since(start); d != test.ends {
				t.Errorf("the session ended after %v, want %v", d, test.ends)
			}
			if n := len(c.lines()); (n == 1) != (test.work == test.ends) {
				t.Errorf("work of %v got %d answers", test.work, n)
			}
		})
	}
}

func TestLastLineNeedsNoNewline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, &stdio.Transport{Linger: time.Second}, nil)
		if _, err := io.WriteString(c.stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); err != nil {
			t.Fatal(err)
		}
		c.stdin.Close()
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

// A deaf reader is like a terminal: nothing interrupts its Read, a Close least of all.
type deaf struct{ never chan struct{} }

func (d deaf) Read([]byte) (int, error) { <-d.never; return 0, io.EOF }
func (d deaf) Close() error             { return nil }

func TestCloseEndsReadEvenIfTheStreamCannotBeInterrupted(t *testing.T) { // L14
	synctest.Test(t, func(t *testing.T) {
		in := deaf{make(chan struct{})}
		tr := &stdio.Transport{In: in, Out: io.Discard}
		conn, err := tr.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := conn.Read(t.Context())
			read <- err
		}()
		synctest.Wait()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := <-read; !errors.Is(err, io.EOF) {
			t.Errorf("Read ended with %v, want io.EOF", err)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
		close(in.never)
		<-tr.Released()
	})
}

func TestTransportConnectsOnce(t *testing.T) {
	tr := &stdio.Transport{In: strings.NewReader(""), Out: io.Discard}
	conn, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Connect(t.Context()); err == nil {
		t.Error("it connected twice")
	}
	_ = conn.Close()
	<-tr.Released()
}

var errPipe = errors.New("broken pipe")

// A brokenPipe fails from the third write on, and counts.
type brokenPipe struct {
	mu     sync.Mutex
	writes int
}

func (b *brokenPipe) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writes++; b.writes > 2 {
		return 0, errPipe
	}
	return len(p), nil
}

func TestFailedWriteEndsTheSession(t *testing.T) { // L14
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":%d,"method":"ping"}`,
		`garbage %d`,
	} {
		synctest.Test(t, func(t *testing.T) {
			out := new(brokenPipe)
			inR, inW := io.Pipe()
			tr := &stdio.Transport{In: inR, Out: out}
			session, err := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil).Connect(t.Context(), tr, nil)
			if err != nil {
				t.Fatal(err)
			}
			fed := make(chan struct{})
			go func() {
				defer close(fed)
				for i := range 100 {
					if _, err := fmt.Fprintf(inW, line+"\n", i); err != nil {
						return
					}
				}
			}()
			if err := session.Wait(); !errors.Is(err, errPipe) {
				t.Errorf("the session ended with %v, want the write's error", err)
			}
			<-fed
			<-tr.Released()
			if out.writes != 3 {
				t.Errorf("%d writes were tried, want 3", out.writes)
			}
		})
	}
}

func TestNothingFollowsHalfAMessage(t *testing.T) { // I1
	out := &brokenPipe{writes: 1} // the next write succeeds, all others fail
	tr := &stdio.Transport{In: strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"m"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"m"}`), Out: out}
	conn, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(); <-tr.Released() }()
	big := json.RawMessage(`{"p":"` + strings.Repeat("x", 100_000) + `"}`)
	for range 2 {
		msg, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = conn.Write(t.Context(), &jsonrpc.Response{ID: msg.(*jsonrpc.Request).ID, Result: big})
		if !errors.Is(err, errPipe) {
			t.Errorf("Write ended with %v, want the pipe's error", err)
		}
	}
	if out.writes != 3 { // the head, and the result that failed
		t.Errorf("%d writes reached the pipe, want 2", out.writes-1)
	}
}

func TestMessagesAreNotInterleaved(t *testing.T) { // I1
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		tr := new(stdio.Transport)
		c := connect(t, tr, map[string]mcp.ToolHandler{
			"big": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				for i := range 3 {
					err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
						ProgressToken: req.Params.GetProgressToken(), Progress: float64(i),
					})
					if err != nil {
						t.Error(err)
					}
				}
				return tr.Splice(req, json.RawMessage(`{"p":"`+strings.Repeat("x", 100_000)+`"}`)), nil
			},
		})
		for i := range n {
			c.call(fmt.Sprint(i), "big", fmt.Sprintf(`,"_meta":{"progressToken":%d}`, i))
			c.send("garbage")
		}
		answered := make(map[string]bool)
		got := c.lines()
		for _, l := range got {
			if !json.Valid([]byte(l)) {
				t.Fatalf("not one message: %.200s", l)
			}
			if token := member(t, l, "params"); token != "" && answered[member(t, token, "progressToken")] {
				t.Errorf("progress after the answer: %s", l)
			}
			answered[member(t, l, "id")] = true
		}
		if want := n * 5; len(got) != want {
			t.Errorf("got %d lines, want %d", len(got), want)
		}
	})
}

func TestSDKClientTalksToTheTransport(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	tr := &stdio.Transport{In: inR, Out: outW}
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return tr.Splice(req, json.RawMessage(`{"content":[{"type":"text","text":"hi"}]}`)), nil
		})
	ss, err := server.Connect(t.Context(), tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).
		Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "raw"})
	if err != nil {
		t.Fatal(err)
	}
	if content, ok := res.Content[0].(*mcp.TextContent); !ok || content.Text != "hi" {
		t.Errorf("got %+v", res)
	}
	if err := ss.Ping(t.Context(), nil); err != nil { // a request of ours, and the client's answer
		t.Error(err)
	}
	_ = cs.Close()
	if err := ss.Wait(); err != nil {
		t.Error(err)
	}
	<-tr.Released()
}

// endless yields n bytes of x, then rest.
func endless(n int64, rest string) io.Reader {
	return io.MultiReader(io.LimitReader(xs{}, n), strings.NewReader(rest))
}

type xs struct{}

var manyXs = bytes.Repeat([]byte("x"), 64<<10)

func (xs) Read(p []byte) (int, error) { return copy(p, manyXs), nil }

func TestLineWithoutEndNeedsBoundedMemory(t *testing.T) { // I3
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := new(bytes.Buffer)
	tr := &stdio.Transport{In: endless(256<<20, "\n"+`{"jsonrpc":"2.0","id":1,"method":"ping"}`), Out: out, MaxLine: 1 << 20}
	conn, err := tr.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(); <-tr.Released() }()
	if _, err := conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("%d MiB were allocated for a line over the limit of 1 MiB", used>>20)
	}
	if !strings.Contains(out.String(), fmt.Sprint(256<<20)) {
		t.Errorf("the answer %q does not name the size", out)
	}
}
