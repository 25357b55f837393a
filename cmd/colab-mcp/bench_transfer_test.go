package main

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const (
	benchFile  = 64 << 20
	benchChunk = 4 << 20 // the largest that transfers use
)

// BenchmarkTransfer moves 64 MiB both ways through the program, the stand-in
// tab and a real ipykernel, and compares with the channel's limit: a bare
// client that pushes the same chunks through the same cells and does nothing
// else. A plain local copy is the other end of the scale.
func BenchmarkTransfer(b *testing.B) {
	python := kernelPython(b)
	program := benchProgram(b)
	for _, kind := range []struct {
		name string
		data []byte
		pack bool
	}{{"random", randomBytes(benchFile), false}, {"csv", csvBytes(benchFile), true}} {
		local := filepath.Join(b.TempDir(), "local")
		if err := os.WriteFile(local, kind.data, 0o600); err != nil {
			b.Fatal(err)
		}
		copied := rate(b, func() { copyFile(b, local, local+".copy") })
		for _, way := range []string{"upload", "download"} {
			b.Run(kind.name+"/"+way, func(b *testing.B) {
				for b.Loop() {
					limit := bareTransfer(b, program, python, way, kind.data, kind.pack)
					ours := ourTransfer(b, program, python, way, local)
					b.ReportMetric(ours, "MB/s")
					b.ReportMetric(limit, "channel-MB/s")
					b.ReportMetric(ours/limit, "of-channel")
					b.ReportMetric(ours/copied, "of-copy")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
}

// rate is how many megabytes of the file a second f moves.
func rate(b *testing.B, f func()) float64 {
	b.Helper()
	began := time.Now()
	f()
	return benchFile / 1e6 / time.Since(began).Seconds()
}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

func csvBytes(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 0, n+100)
	for i := 0; len(data) < n; i++ {
		data = fmt.Appendf(data, "%d,2026-11-30T%02d:%02d:%02d,%.3f,%s,%d\n", i, i/3600%24, i/60%60, i%60, r.Float64()*100, []string{"north", "south", "east"}[r.IntN(3)], r.IntN(1000))
	}
	return data[:n]
}

func copyFile(b *testing.B, from, to string) {
	src, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(to)
	if _, err := io.Copy(dst, src); err != nil {
		b.Fatal(err)
	}
	if err := dst.Sync(); err != nil {
		b.Fatal(err)
	}
	dst.Close()
}

// ourTransfer is the rate of one transfer by the program's tool.
func ourTransfer(b *testing.B, program, python, way, local string) float64 {
	p := startBenchProcess(b, program, "--soft-limit", "10m", "--browser", fmt.Sprintf("'%s' tab --python '%s'", program, python))
	defer p.end()
	p.ask(b, `"tools/call","params":{"name":"open_colab_browser_connection","arguments":{}}`)
	remote := filepath.Join(b.TempDir(), "remote")
	call := func(tool string, a args) {
		raw, err := json.Marshal(a)
		if err != nil {
			b.Fatal(err)
		}
		p.ask(b, fmt.Sprintf(`"tools/call","params":{"name":%q,"arguments":%s}`, tool, raw))
	}
	call("run_code", args{"code": "pass"}) // the kernel's start is nobody's transfer
	upload := func() { call("upload_file", args{"local_path": local, "remote_path": remote}) }
	if way == "upload" {
		return rate(b, upload)
	}
	upload()
	return rate(b, func() { call("download_file", args{"remote_path": remote, "local_path": remote + ".back"}) })
}

// bareTransfer is the rate of the chunks of data through the same cells, sent
// by a client that only sends.
func bareTransfer(b *testing.B, program, python, way string, data []byte, pack bool) float64 {
	tab := newBareTab(b, program, python)
	defer tab.close()
	id := tab.addCell(b, "pass")
	tab.run(b, id)
	var chunks []string
	for off := 0; off < len(data); off += benchChunk {
		chunk := data[off:min(off+benchChunk, len(data))]
		if pack {
			var z bytes.Buffer
			w, _ := zlib.NewWriterLevel(&z, 1)
			w.Write(chunk)
			w.Close()
			chunk = z.Bytes()
		}
		chunks = append(chunks, base64.StdEncoding.EncodeToString(chunk))
	}
	if way == "upload" {
		return rate(b, func() {
			for _, c := range chunks {
				tab.update(b, id, "(lambda data: None)('"+c+"')")
				tab.run(b, id)
			}
		})
	}
	tab.update(b, id, "chunk = '"+chunks[0]+"'")
	tab.run(b, id)
	tab.update(b, id, "print(chunk)")
	return rate(b, func() {
		for range chunks {
			tab.run(b, id)
		}
	})
}

// bareTab is the stand-in tab with nothing but a socket on our side.
type bareTab struct {
	cmd  *exec.Cmd
	conn *websocket.Conn
	srv  *http.Server
	over chan struct{}
	last int
}

func newBareTab(b *testing.B, program, python string) *bareTab {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	conns := make(chan *websocket.Conn)
	t := &bareTab{over: make(chan struct{})}
	t.srv = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}, InsecureSkipVerify: true})
		if err != nil {
			return
		}
		c.SetReadLimit(-1)
		conns <- c
		<-t.over
	})}
	go t.srv.Serve(l)
	link := fmt.Sprintf("https://colab.research.google.com/notebooks/empty.ipynb#mcpProxyToken=T&mcpProxyPort=%d", l.Addr().(*net.TCPAddr).Port)
	t.cmd = exec.Command(program, "tab", link, "--python", python)
	if err := t.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	t.conn = <-conns
	t.ask(b, "initialize", json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}`))
	if err := t.conn.Write(context.Background(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		b.Fatal(err)
	}
	return t
}

func (t *bareTab) close() {
	t.conn.Close(websocket.StatusNormalClosure, "")
	close(t.over)
	t.srv.Close()
	t.cmd.Wait()
}

func (t *bareTab) ask(b *testing.B, method string, params json.RawMessage) []byte {
	b.Helper()
	t.last++
	frame := append(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":`, t.last, method), params...)
	if err := t.conn.Write(context.Background(), websocket.MessageText, append(frame, '}')); err != nil {
		b.Fatal(err)
	}
	_, answer, err := t.conn.Read(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

func (t *bareTab) call(b *testing.B, tool, arguments string) []byte {
	b.Helper()
	answer := t.ask(b, "tools/call", json.RawMessage(`{"name":"`+tool+`","arguments":`+arguments+`}`))
	if bytes.Contains(answer[:min(len(answer), 500)], []byte(`"isError":true`)) {
		b.Fatalf("%s: %.300s", tool, answer)
	}
	return answer
}

func (t *bareTab) addCell(b *testing.B, code string) string {
	b.Helper()
	var r struct {
		Result struct {
			Structured struct {
				ID string `json:"newCellId"`
			} `json:"structuredContent"`
		}
	}
	if err := json.Unmarshal(t.call(b, "add_code_cell", `{"cellIndex":99,"language":"python","code":"`+code+`"}`), &r); err != nil {
		b.Fatal(err)
	}
	return r.Result.Structured.ID
}

// update sets a source that needs no escaping.
func (t *bareTab) update(b *testing.B, id, source string) {
	b.Helper()
	t.call(b, "update_cell", `{"cellId":"`+id+`","content":"`+source+`"}`)
}

func (t *bareTab) run(b *testing.B, id string) {
	b.Helper()
	t.call(b, "run_code_cell", `{"cellId":"`+id+`"}`)
}
