package bridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// I2, tab-protocol section 5: what cannot be read fails the call it answers, at once.
func TestMalformedAnswerFailsItsCall(t *testing.T) {
	for name, frame := range map[string]string{
		"cut":             `{"jsonrpc":"2.0","id":ID,"result":{"content":[`,
		"cut in a string": `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"text":"abc`,
		"id at the end":   `{"jsonrpc":"2.0","result":{"content":[}],"id":ID}`,
		"spaced id":       `{ "id" : ID , "result" : tru }`,
		"batch":           `[{"jsonrpc":"2.0","id":ID,"result":{}}]`,
		"trailing":        `{"jsonrpc":"2.0","id":ID,"result":{}}{}`,
		"not UTF-8":       "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"text\":\"\xff\"}}",
		"control":         "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"text\":\"\x01\"}}",
		"NaN":             `{"jsonrpc":"2.0","id":ID,"result":{"n":NaN}}`,
		"neither":         `{"jsonrpc":"2.0","id":ID}`,
		"null result":     `{"jsonrpc":"2.0","id":ID,"result":null}`,
		"list result":     `{"jsonrpc":"2.0","id":ID,"result":[1]}`,
		"string result":   `{"jsonrpc":"2.0","id":ID,"result":"x"}`,
		"number result":   `{"jsonrpc":"2.0","id":ID,"result":42}`,
		"too deep":        `{"jsonrpc":"2.0","id":ID,"result":{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				f, tab := d.connect(tabtest.Knobs{Swallow: []string{"get_cells"}})
				run := running(t, tab, "sleep 1m\nresult kept")
				c := call(t, tab, "get_cells", "")
				f.Inject(strings.ReplaceAll(frame, "ID", string(f.Calls("get_cells")[0].ID)))
				o := <-c
				var broken *bridge.FrameError
				if !errors.As(o.err, &broken) || o.took != 0 {
					t.Errorf("after %v: %s, %v", o.took, o.result, o.err)
				}
				if d.Live() != tab {
					t.Fatalf("the tab was given up: %v", tab.Why())
				}
				if o := <-run; o.err != nil || !strings.Contains(string(o.result), "kept") {
					t.Errorf("the run beside it: %s, %v", o.result, o.err)
				}
			})
		})
	}
}

// I2, tab-protocol section 5: what answers nothing is ignored.
func TestFramesThatAnswerNothingAreIgnored(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{Swallow: []string{"get_cells"}})
		c := call(t, tab, "get_cells", "")
		id := string(f.Calls("get_cells")[0].ID)
		for _, frame := range []string{
			"hello", "", " ", "\ufeff", "{", "}", "[]", "[1]", "null", "42", `"x"`, `{"a":1}`, `{"jsonrpc":`, "{}",
			`{"jsonrpc":"2.0","id":999999,"result":{}}`, `{"jsonrpc":"2.0","id":"ID","result":{}}`, `{"jsonrpc":"2.0","id":null,"result":{}}`,
			`{"jsonrpc":"2.0","id":ID.5,"result":{}}`, `{"jsonrpc":"2.0","id":-1,"result":{}}`, `{"jsonrpc":"2.0","id":99999999999999999999,"result":{}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
			`{"jsonrpc":"2.0","id":ID,"method":"ping"}`, // the tab's own request of the same id
			`{"jsonrpc":"2.0","id":ID,"method":"ping","params":{`,
			`{"jsonrpc":"2.0","method":"notifications/unknown"}`, `{"jsonrpc":"2.0","method":7}`,
			`{"jsonrpc":"2.0","method":"notifications/progress"}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":[]}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/message"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}`,
		} {
			f.Inject(strings.ReplaceAll(frame, "ID", id))
			pending(t, c, frame)
		}
		f.InjectBinary([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`))
		pending(t, c, "binary")
		f.Release()
		if o := <-c; o.err != nil || !strings.Contains(string(o.result), `"cells"`) {
			t.Errorf("%s, %v", o.result, o.err)
		}
		if d.Live() != tab {
			t.Errorf("the tab was given up: %v", tab.Why())
		}
	})
}

// I3: also a read, which is not worth asking again.
func TestFrameOverTheLimitFailsAtOnceNamingIt(t *testing.T) {
	for _, tool := range []string{"update_cell", "get_cells"} {
		inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
			f, tab := d.connect(tabtest.Knobs{Swallow: []string{"get_cells", "update_cell"}})
			c := call(t, tab, tool, `{}`)
			head := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"text":"`, f.Calls(tool)[0].ID)
			go f.Inject(head + strings.Repeat("x", 64<<20) + `"}}`)
			o := <-c
			if o.err == nil || errors.Is(o.err, bridge.ErrTabGone) || !strings.Contains(o.err.Error(), "64 MiB") || o.took > time.Second {
				t.Errorf("%s after %v: %.100s, %v", tool, o.took, o.result, o.err)
			}
			<-f.Gone()
			if code, _ := f.CloseCode(); code != websocket.StatusMessageTooBig {
				t.Errorf("closed with %d", code)
			}
			_, again := d.connect(tabtest.Knobs{})
			works(t, again)
		})
	}
}

// I3
func TestFrameOfTheLimitIsTaken(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{Swallow: []string{"get_cells"}})
		c := call(t, tab, "get_cells", "")
		head, tail := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"text":"`, f.Calls("get_cells")[0].ID), `"}}`
		go f.Inject(head + strings.Repeat("x", 64<<20-len(head)-len(tail)) + tail)
		if o := <-c; o.err != nil || len(o.result) < 64<<20-100 {
			t.Errorf("%d bytes, %v", len(o.result), o.err)
		}
		f.Set(func(k *tabtest.Knobs) { k.Swallow = nil })
		works(t, tab)
	})
}
