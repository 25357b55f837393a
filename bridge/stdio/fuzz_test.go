package stdio_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"colab-mcp/bridge/stdio"
)

// FuzzReader feeds any bytes before a valid request: the request arrives, and every line that was answered on
// the way, or that the server answers, is answered with one line of JSON-RPC.
func FuzzReader(f *testing.F) { // I2
	for _, seed := range []string{
		"", "hello", `{"jsonrpc":`, `[1]`, `{"a":1}`, "\ufeff\r\n", "\xff\xfe", "null\n\n\ntrue",
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"_meta":{"progressToken":7}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"b"}`,
		`{"jsonrpc":"2.0","id":"\u0061","method":"a"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":[]}`,
		`{"method":"m","params":"` + strings.Repeat("x", 5000) + `","id":"tail"}`,
	} {
		f.Add([]byte(seed))
	}
	const id = `"the valid one"`
	const valid = `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`
	f.Fuzz(func(t *testing.T, data []byte) {
		out := new(bytes.Buffer)
		in := io.MultiReader(bytes.NewReader(data), strings.NewReader("\n"+valid+"\n"))
		tr := &stdio.Transport{In: in, Out: out, MaxLine: 4000}
		conn, err := tr.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var last *jsonrpc.Request
		for {
			msg, err := conn.Read(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("Read: %v", err)
			}
			req, ok := msg.(*jsonrpc.Request)
			if !ok {
				continue
			}
			last = req
			if req.IsCall() {
				if err := conn.Write(t.Context(), &jsonrpc.Response{ID: req.ID, Result: json.RawMessage(`{}`)}); err != nil {
					t.Fatalf("Write: %v", err)
				}
			}
		}
		if last == nil || last.Method != "ping" || last.ID.Raw() != "the valid one" {
			t.Fatalf("the valid request did not arrive; the last was %+v", last)
		}
		if !bytes.HasSuffix(out.Bytes(), []byte(`{"jsonrpc":"2.0","id":`+id+`,"result":{}}`+"\n")) {
			t.Errorf("the valid request is not answered at the end of %q", out)
		}
		for l := range bytes.Lines(out.Bytes()) {
			var m map[string]json.RawMessage
			if err := json.Unmarshal(l, &m); err != nil {
				t.Fatalf("%q: %v", l, err)
			}
			if _, result := m["result"]; string(m["jsonrpc"]) != `"2.0"` || len(m["id"]) == 0 || result == (m["error"] != nil) || len(m) != 3 {
				t.Errorf("not an answer: %s", l)
			}
			if raw := m["id"]; string(raw) != "null" && string(raw) != id && !bytes.Contains(data, raw) {
				t.Errorf("the id %s was never sent", raw)
			}
		}
		if n := tr.Kept(); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
		_ = conn.Close()
		<-tr.Released()
	})
}
