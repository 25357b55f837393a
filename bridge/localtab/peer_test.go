package localtab

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// A peer is the bridge's side of one connection, as small as it can be: it sends requests with ids
// from 1 and hands each answer to whoever waits for it.
type peer struct {
	t       testing.TB
	ws      *websocket.Conn
	request *http.Request // the dial

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	done    sync.WaitGroup
}

type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int
		Message string
	} `json:"error"`
}

// connect serves tab to a new peer over loopback until the test ends.
func connect(t testing.TB, tab *Tab) *peer {
	t.Helper()
	accepted := make(chan *peer, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}, InsecureSkipVerify: true})
		if err != nil {
			t.Error(err)
			return
		}
		ws.SetReadLimit(-1)
		accepted <- &peer{t: t, ws: ws, request: r, waiting: make(map[int]chan answer)}
	}))
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	// localhost may resolve to ::1 first; the test server has 127.0.0.1 only.
	tab.o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, srv.Listener.Addr().String())
	}
	conn, err := tab.Dial(t.Context(), "https://colab.research.google.com/notebooks/empty.ipynb#scrollTo=x&mcpProxyToken=to%2Bken&mcpProxyPort="+port)
	if err != nil {
		t.Fatal(err)
	}
	p := <-accepted
	p.done.Go(p.read)
	served := make(chan error, 1)
	go func() { served <- tab.Serve(context.WithoutCancel(t.Context()), conn) }()
	t.Cleanup(func() {
		p.ws.Close(websocket.StatusNormalClosure, "")
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		p.done.Wait()
		srv.Close()
	})
	p.call("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

var resultFrame = regexp.MustCompile(`^\{"jsonrpc":"2.0","id":(\d+),"result":`)

func (p *peer) read() {
	for {
		_, b, err := p.ws.Read(context.Background())
		if err != nil {
			return
		}
		var a answer
		if m := resultFrame.FindSubmatch(b[:min(len(b), 64)]); m != nil {
			// Decoding tens of MB would be most of a benchmark, and seconds under -race.
			a.ID, _ = strconv.Atoi(string(m[1]))
			a.Result = b[len(m[0]) : len(b)-1]
		} else if err := json.Unmarshal(b, &a); err != nil {
			p.t.Errorf("the tab sent %.200s: %v", b, err)
			continue
		}
		p.mu.Lock()
		ch := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		if ch == nil {
			p.t.Errorf("unexpected message of the tab: %.200s", b)
			continue
		}
		ch <- a
	}
}

func (p *peer) send(frame string) {
	p.t.Helper()
	if err := p.ws.Write(context.Background(), websocket.MessageText, []byte(frame)); err != nil {
		p.t.Fatal(err)
	}
}

// start sends a request and returns its id and where its answer will be.
func (p *peer) start(method, params string) (int, chan answer) {
	p.t.Helper()
	ch := make(chan answer, 1)
	p.mu.Lock()
	p.last++
	id := p.last
	p.waiting[id] = ch
	p.mu.Unlock()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	return id, ch
}

func (p *peer) call(method, params string) answer {
	p.t.Helper()
	_, ch := p.start(method, params)
	return <-ch
}

// A result is a decoded answer of a tool.
type result struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

func (p *peer) startTool(name string, args any) (int, chan answer) {
	p.t.Helper()
	a, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.start("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, a))
}

func (p *peer) decode(a answer) result {
	p.t.Helper()
	if a.Error != nil {
		p.t.Fatalf("error %d %s", a.Error.Code, a.Error.Message)
	}
	var r result
	if err := json.Unmarshal(a.Result, &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *peer) toolResult(name string, args any) result {
	p.t.Helper()
	_, ch := p.startTool(name, args)
	return p.decode(<-ch)
}

type obj = map[string]any

// A nbCell is a cell as get_cells shows it.
type nbCell struct {
	Kind    string          `json:"cell_type"`
	ID      string          `json:"id"`
	Source  []string        `json:"source"`
	Count   *int            `json:"execution_count"`
	Outputs []nbOutput      `json:"outputs"`
	Meta    json.RawMessage `json:"metadata"`
}

type nbOutput struct {
	Type      string                     `json:"output_type"`
	Name      string                     `json:"name"`
	Text      []string                   `json:"text"`
	Data      map[string]json.RawMessage `json:"data"`
	Count     *int                       `json:"execution_count"`
	EName     string                     `json:"ename"`
	EValue    string                     `json:"evalue"`
	Traceback []string                   `json:"traceback"`
}

// payload calls a tool that must succeed and decodes its structured payload into v.
func (p *peer) payload(name string, args any, v any) {
	p.t.Helper()
	r := p.toolResult(name, args)
	if r.IsError {
		p.t.Fatalf("%s: %s", name, r.Content[0].Text)
	}
	if err := json.Unmarshal(r.Structured, v); err != nil {
		p.t.Fatalf("%s: %v in %.200s", name, err, r.Structured)
	}
}

func (p *peer) cells(args any) []nbCell {
	p.t.Helper()
	var got struct{ Cells []nbCell }
	p.payload("get_cells", args, &got)
	return got.Cells
}

func (p *peer) addCode(code string) string {
	p.t.Helper()
	var got struct{ NewCellID string }
	p.payload("add_code_cell", obj{"cellIndex": 9999, "language": "python", "code": code}, &got)
	return got.NewCellID
}

// run adds a cell, runs it and returns it as it is afterwards.
func (p *peer) run(code string) nbCell {
	p.t.Helper()
	return p.runCell(p.addCode(code))
}

func (p *peer) runCell(id string) nbCell {
	p.t.Helper()
	var got struct{ Outputs []nbOutput }
	p.payload("run_code_cell", obj{"cellId": id}, &got)
	for _, c := range p.cells(obj{"includeOutputs": true}) {
		if c.ID == id {
			c.Outputs = got.Outputs
			return c
		}
	}
	p.t.Fatalf("cell %s is gone", id)
	return nbCell{}
}
