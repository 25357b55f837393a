package stdio_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge/stdio"
)

const (
	parseError     = -32700
	invalidRequest = -32600
)

func TestMalformedLineIsAnsweredAndTheSessionLives(t *testing.T) { // I2
	for _, test := range []struct {
		line string
		code int
		id   string
	}{
		{`hello`, parseError, `null`},
		{`{"jsonrpc":`, parseError, `null`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}`, parseError, `null`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"},`, parseError, `null`},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xff\"}", parseError, `null`},
		{strings.Repeat("[", 20_000), parseError, `null`},
		{`{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, parseError, `null`},
		{`[1]`, invalidRequest, `null`},
		{`[]`, invalidRequest, `null`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, invalidRequest, `null`},
		{`42`, invalidRequest, `null`},
		{`"ping"`, invalidRequest, `null`},
		{`null`, invalidRequest, `null`},
		{`{}`, invalidRequest, `null`},
		{`{"a":1}`, invalidRequest, `null`},
		{`{"id":7}`, invalidRequest, `7`},
		{`{"jsonrpc":"2.0","id":"x"}`, invalidRequest, `"x"`},
		{`{"jsonrpc":"1.0","id":7,"method":"ping"}`, invalidRequest, `7`},
		{`{"jsonrpc":2.0,"id":7,"method":"ping"}`, invalidRequest, `7`},
		{`{"id":9007199254740993,"method":"ping"}`, invalidRequest, `9007199254740993`},
		{`{"JSONRPC":"2.0","ID":7,"METHOD":"ping"}`, invalidRequest, `null`},
		{`{"jsonrpc":"2.0","id":7,"method":5}`, invalidRequest, `7`},
		{`{"jsonrpc":"2.0","id":7,"method":null}`, invalidRequest, `7`},
		{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, invalidRequest, `null`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, invalidRequest, `null`},
		{`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, invalidRequest, `null`},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, invalidRequest, `null`},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, invalidRequest, `null`},
		{`{"jsonrpc":"2.0","id":7,"method":"notifications/cancelled","params":{"requestId":1}}`, invalidRequest, `7`},
	} {
		t.Run(fmt.Sprintf("%.40s", test.line), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, new(stdio.Transport), nil)
				c.send(test.line)
				if r := c.refused(); r.Error.Code != test.code || string(r.ID) != test.id {
					t.Errorf("got code %d, id %s (%s); want %d, %s", r.Error.Code, r.ID, r.Error.Message, test.code, test.id)
				}
				c.alive()
			})
		})
	}
}

func TestHarmlessLineIsNotAnswered(t *testing.T) { // I2
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, new(stdio.Transport), nil)
		for _, line := range []string{
			"", "   ", "\r", "\t \r", "\ufeff", "\ufeff\r",
			`{"jsonrpc":"2.0","method":"notifications/unheard_of","params":[1,{"a":null}]}`,
			`{"jsonrpc":"2.0","id":null,"method":"notifications/roots/list_changed"}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":"x"}`,
			`{"jsonrpc":"2.0","method":"notifications/progress"}`,
			`{"jsonrpc":"2.0","method":"tools/list"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody","reason":5}}`,
			`{"jsonrpc":"2.0","id":1,"result":{}}`,
			`{"jsonrpc":"2.0","id":1,"result":null}`,
			`{"jsonrpc":"2.0","id":1,"error":"odd"}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`,
			`{"jsonrpc":"2.0","id":1.5,"result":{}}`,
			`{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":{}}`,
			`{"jsonrpc":"2.0","result":{}}`,
			`{"id":1,"result":{}}`,
		} {
			c.send(line)
			if got := c.lines(); len(got) != 0 {
				t.Errorf("%q was answered with %q", line, got)
			}
		}
		c.alive()
	})
}

func TestOddParamsFailTheirRequestOnly(t *testing.T) { // I2
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, new(stdio.Transport), nil)
		for i, params := range []string{
			`"x"`, `7`, `[1]`, `true`, `null`, `{"name":5}`, `{"_meta":7}`, `{"_meta":{"progressToken":{}}}`, `{"name":"x","_meta":{"progressToken":[1]}}`,
			`{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
		} {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, i, params))
			if r := c.refused(); string(r.ID) != fmt.Sprint(i) {
				t.Errorf("params %.40s: the error has the id %s, want %d", params, r.ID, i)
			}
		}
		c.alive()
	})
}

func TestByteOrderMarkAndCarriageReturnAreFine(t *testing.T) { // I2
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, new(stdio.Transport), nil)
		c.send("\ufeff" + ` {"jsonrpc":"2.0","id":1,"method":"ping"} ` + "\r")
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

func TestNotificationBeforeInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := raw(t, new(stdio.Transport))
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		c.alive()
	})
}

func TestLineOverTheLimitFailsAtOnceNamingSizeAndLimit(t *testing.T) { // I3
	pad := strings.Repeat("x", 200_000)
	for _, test := range []struct{ name, line, id string }{
		{"no JSON", pad, `null`},
		{"id first", `{"jsonrpc":"2.0","id":9007199254740993,"method":"m","params":{"p":"` + pad + `"}}`, `9007199254740993`},
		{"id last", `{"method":"m","params":{"id":3,"p":"` + pad + `"},"jsonrpc":"2.0","id":"tail"}`, `"tail"`},
		{"id in a nested object", `{"method":"m","params":{"p":"` + pad + `","id":3}}`, `null`},
		{"an answer's id", `{"jsonrpc":"2.0","id":3,"result":"` + pad + `"}`, `null`},
		{"illegal id", `{"jsonrpc":"2.0","id":true,"method":"m","params":"` + pad + `"}`, `null`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, &stdio.Transport{MaxLine: 100_000}, nil)
				c.send(test.line)
				r := c.refused()
				if r.Error.Code != invalidRequest || string(r.ID) != test.id {
					t.Errorf("got code %d, id %s; want %d, %s", r.Error.Code, r.ID, invalidRequest, test.id)
				}
				for _, n := range []int{len(test.line), 100_000} {
					if !strings.Contains(r.Error.Message, fmt.Sprint(n)) {
						t.Errorf("%q does not name %d", r.Error.Message, n)
					}
				}
				c.alive()
			})
		})
	}
}

func TestLineOfTheLimitPasses(t *testing.T) { // I3
	synctest.Test(t, func(t *testing.T) {
		ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		c := connect(t, &stdio.Transport{MaxLine: 100_000}, nil)
		c.send(ping + strings.Repeat(" ", 100_000-len(ping)))
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		c.send(ping + strings.Repeat(" ", 100_001-len(ping)))
		c.refused()
	})
}

func TestLineOfSeveralMegabytesPasses(t *testing.T) { // I3
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, new(stdio.Transport), map[string]mcp.ToolHandler{
			"size": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return text(fmt.Sprint(len(req.Params.Arguments))), nil
			},
		})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"size","arguments":{"p":"` + strings.Repeat("x", 8<<20) + `"}}}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"8388616"}]}}`)
	})
}
