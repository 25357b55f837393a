package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge/stdio"
)

// BenchmarkAnswer is one tools/call over real pipes, from the request's write to the last byte of its answer
// read: spliced, decoded and encoded again by the SDK, and just the bytes without any server (the limit).
func BenchmarkAnswer(b *testing.B) {
	for _, size := range []int{64, 1 << 20, 16 << 20} {
		answer := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("0123456789abcde\\n", size/17) + `"}]}`)
		for _, how := range []string{"bare", "splice", "decode"} {
			b.Run(fmt.Sprintf("%s/%d", how, size), func(b *testing.B) { benchmarkAnswer(b, how, answer) })
		}
	}
}

func benchmarkAnswer(b *testing.B, how string, answer json.RawMessage) {
	inR, inW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { inW.Close(); outR.Close(); outW.Close() }()
	out := bufio.NewReaderSize(outR, 64<<10)
	answerTo := func(request string) {
		if _, err := io.WriteString(inW, request+"\n"); err != nil {
			b.Fatal(err)
		}
		for {
			_, err := out.ReadSlice('\n')
			if err == nil {
				return
			}
			if err != bufio.ErrBufferFull {
				b.Fatal(err)
			}
		}
	}
	if how == "bare" {
		served := make(chan struct{})
		go func() {
			defer close(served)
			lines := bufio.NewScanner(inR)
			for lines.Scan() {
				_, _ = outW.Write(answer)
				_, _ = outW.Write([]byte("\n"))
			}
		}()
		defer func() { inW.Close(); <-served; inR.Close() }()
	} else {
		tr := &stdio.Transport{In: inR, Out: outW}
		foreign := new(stdio.Transport)
		server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		server.AddTool(&mcp.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if how == "decode" {
					return foreign.Splice(req, answer), nil
				}
				return tr.Splice(req, answer), nil
			})
		session, err := server.Connect(b.Context(), tr, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { inW.Close(); _ = session.Wait(); <-tr.Released() }()
		answerTo(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	}
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		answerTo(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"raw","arguments":{}}}`)
	}
}
