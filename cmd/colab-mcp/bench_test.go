package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge"
)

// The bench compares, in one run, a call relayed by the real program with a
// bare WebSocket that echoes the same bytes: what a relay must take in and give
// out, and nothing else. Ratios are what counts; the times are this machine's.

// BenchmarkRelay relays get_cells with answers of several sizes. The limit is
// an echo within one process; "between" is one between two, which every relay
// crosses four times: waking a process on an idle core takes longer than all
// work on a small answer.
func BenchmarkRelay(b *testing.B) {
	for _, c := range []struct {
		name        string
		size, calls int
	}{{"64B", 64, 2000}, {"1MiB", 1 << 20, 60}, {"16MiB", 16 << 20, 12}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				m := medians(b, c.size, c.calls)
				b.ReportMetric(float64(m.limit.Microseconds()), "limit-µs")
				b.ReportMetric(float64(m.between.Microseconds()), "between-µs")
				b.ReportMetric(float64(m.relay.Microseconds()), "relay-µs")
				b.ReportMetric(float64(m.relay)/float64(m.limit), "of-limit")
				b.ReportMetric(float64(m.relay)/float64(m.between), "of-between")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

type relayTimes struct{ relay, limit, between time.Duration }

// medians measures all sides turn and turn about.
func medians(b *testing.B, size, calls int) relayTimes {
	answer := benchAnswer(size)
	within := newBareSocket(b, echoWithin(b), answer)
	between := newBareSocket(b, echoBetween(b), answer)
	p := newBenchProcess(b, answer)
	var times [3][]time.Duration
	for i := range calls + calls/10 {
		for side, ask := range []func(){func() { within.echo(b) }, func() { between.echo(b) }, func() { p.call(b, "get_cells") }} {
			began := time.Now()
			ask()
			if i >= calls/10 { // the first are for warming up
				times[side] = append(times[side], time.Since(began))
			}
		}
	}
	return relayTimes{limit: median(times[0]), between: median(times[1]), relay: median(times[2])}
}

// BenchmarkMemory is the peak of resident memory of a fresh process after one
// answer of 48 MiB, over its size.
func BenchmarkMemory(b *testing.B) {
	const size = 48 << 20
	for b.Loop() {
		p := newBenchProcess(b, benchAnswer(size))
		p.call(b, "get_cells")
		peak := peakMemory(b, p)
		b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
		b.ReportMetric(float64(peak)/size, "ratio")
		b.ReportMetric(0, "ns/op")
	}
}

// peakMemory is the most resident memory a process has had, in bytes.
func peakMemory(t testing.TB, p *benchProcess) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip("peak memory is read from /proc: ", err)
	}
	kb, err := strconv.ParseInt(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// BenchmarkStart is the time from the start of the process to its first
// tools/list answer.
func BenchmarkStart(b *testing.B) {
	program := benchProgram(b)
	for b.Loop() {
		var times []time.Duration
		for range 21 {
			began := time.Now()
			p := startBenchProcess(b, program)
			times = append(times, time.Since(began))
			p.end()
		}
		b.ReportMetric(float64(median(times).Microseconds())/1000, "start-ms")
		b.ReportMetric(0, "ns/op")
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// benchAnswer is a get_cells result of size bytes.
func benchAnswer(size int) []byte {
	frame := `{"content":[{"type":"text","text":""}]}`
	return []byte(strings.Replace(frame, `""`, `"`+strings.Repeat("x", max(0, size-len(frame)))+`"`, 1))
}

// benchProgram builds the program as a user would, whoever owns the checkout:
// git tells nobody else its revision.
func benchProgram(b testing.TB) string {
	path := filepath.Join(b.TempDir(), "colab-mcp")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// bareSocket is the limit: the answer's bytes there and back over a WebSocket.
type bareSocket struct {
	conn  *websocket.Conn
	bytes []byte
}

func newBareSocket(b *testing.B, url string, answer []byte) *bareSocket {
	c, _, err := websocket.Dial(context.Background(), url, nil)
	if err != nil {
		b.Fatal(err)
	}
	c.SetReadLimit(-1)
	b.Cleanup(func() { c.CloseNow() })
	return &bareSocket{c, answer}
}

// echoHandler gives back what comes over a WebSocket.
func echoHandler(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(-1)
	for {
		_, frame, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), websocket.MessageText, frame) != nil {
			return
		}
	}
}

// echoWithin is the URL of an echo in this process.
func echoWithin(b *testing.B) string {
	srv := httptest.NewServer(http.HandlerFunc(echoHandler))
	b.Cleanup(srv.Close)
	return srv.URL
}

// echoSocket is the command of an echo in a process of its own, which says its
// URL and ends with its stdin.
const echoSocket = "echo-socket"

func serveEcho() {
	srv := httptest.NewServer(http.HandlerFunc(echoHandler))
	fmt.Println(srv.URL)
	io.Copy(io.Discard, os.Stdin)
}

// echoBetween is the URL of an echo in another process.
func echoBetween(b *testing.B) string {
	cmd := exec.Command(echoSocket)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	var url string
	if _, err := fmt.Fscan(out, &url); err != nil {
		b.Fatal(err)
	}
	return url
}

func (s *bareSocket) echo(b *testing.B) {
	if err := s.conn.Write(context.Background(), websocket.MessageText, s.bytes); err != nil {
		b.Fatal(err)
	}
	if _, _, err := s.conn.Read(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// benchProcess is the program with a bare client at its pipes.
type benchProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
	buf []byte
}

func startBenchProcess(b testing.TB, program string, args ...string) *benchProcess {
	p := &benchProcess{cmd: exec.Command(program, append([]string{"--state-dir", b.TempDir()}, args...)...)}
	p.cmd.Env = environment()
	p.in, _ = p.cmd.StdinPipe()
	p.out, _ = p.cmd.StdoutPipe()
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	p.ask(b, `"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	fmt.Fprintln(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.ask(b, `"tools/list"`)
	return p
}

// newBenchProcess is the program with a tab that answers every call with
// answer.
func newBenchProcess(b *testing.B, answer []byte) *benchProcess {
	links := make(chan string, 1)
	post := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		link, _ := io.ReadAll(r.Body)
		links <- string(link)
	}))
	defer post.Close()
	script := filepath.Join(b.TempDir(), "browser")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nprintf '%s' \"$1\" > \"$0.link.tmp\" && mv \"$0.link.tmp\" \"$0.link\"\n"), 0o700); err != nil {
		b.Fatal(err)
	}
	p := startBenchProcess(b, benchProgram(b), "--browser", script)
	go func() {
		p.ask(b, `"tools/call","params":{"name":"open_colab_browser_connection","arguments":{}}`)
		close(links)
	}()
	var link []byte
	for link == nil {
		link, _ = os.ReadFile(script + ".link")
	}
	conn := benchTab(b, string(link), answer)
	<-links
	b.Cleanup(func() {
		p.end()
		conn.CloseNow()
	})
	return p
}

// benchTab dials in as a tab and answers with as little work as there can be.
func benchTab(b *testing.B, link string, answer []byte) *websocket.Conn {
	m := regexp.MustCompile(`mcpProxyToken=([^&]+)&mcpProxyPort=(\d+)`).FindStringSubmatch(link)
	conn, _, err := websocket.Dial(context.Background(), "ws://localhost:"+m[2]+"/?access_token="+m[1], &websocket.DialOptions{
		Subprotocols: []string{"mcp"}, HTTPHeader: http.Header{"Origin": {"https://colab.research.google.com"}},
	})
	if err != nil {
		b.Fatal(err)
	}
	tools, err := json.Marshal(bridge.Catalog())
	if err != nil {
		b.Fatal(err)
	}
	list := fmt.Appendf(nil, `{"tools":%s}`, tools)
	hello := []byte(`{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"bench","version":"1"}}`)
	id := regexp.MustCompile(`"id":(\d+)`)
	go func() {
		for {
			_, frame, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			m := id.FindSubmatch(frame)
			if m == nil {
				continue
			}
			result := answer
			switch {
			case bytes.Contains(frame, []byte(`"initialize"`)):
				result = hello
			case bytes.Contains(frame, []byte(`"tools/list"`)):
				result = list
			case bytes.Contains(frame, []byte(`"ping"`)):
				result = []byte(`{}`)
			}
			reply := slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), m[1], []byte(`,"result":`), result, []byte(`}`))
			if conn.Write(context.Background(), websocket.MessageText, reply) != nil {
				return
			}
		}
	}()
	return conn
}

func (p *benchProcess) call(b testing.TB, tool string) {
	p.ask(b, `"tools/call","params":{"name":"`+tool+`","arguments":{}}`)
}

// ask sends a request and returns its answer's line, which is good until the
// next one.
func (p *benchProcess) ask(b testing.TB, rest string) []byte {
	if _, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":1,"method":%s}`+"\n", rest); err != nil {
		b.Fatal(err)
	}
	for {
		line := p.line(b)
		if bytes.HasPrefix(line, []byte(`{"jsonrpc":"2.0","id":1,`)) {
			if bytes.Contains(line[:min(len(line), 400)], []byte(`"isError":true`)) {
				b.Fatalf("%s: %.300s", rest, line)
			}
			return line
		}
	}
}

// line reads one line into a buffer that stays, as a careful client would.
func (p *benchProcess) line(b testing.TB) []byte {
	if p.buf == nil {
		p.buf = make([]byte, 64<<20)
	}
	n := 0
	for {
		m, err := p.out.Read(p.buf[n:])
		n += m
		if m > 0 && p.buf[n-1] == '\n' {
			if i := bytes.IndexByte(p.buf[:n], '\n'); i == n-1 {
				return p.buf[:n]
			}
			at := bytes.LastIndexByte(p.buf[:n-1], '\n')
			return p.buf[at+1 : n] // several lines at once: the answer is the last
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func (p *benchProcess) end() {
	p.in.Close()
	p.cmd.Wait()
}
