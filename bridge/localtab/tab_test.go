package localtab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// An echoKernel shows the code as it is and waits where the code begins with "wait".
type echoKernel struct{ release chan struct{} }

func (k echoKernel) Execute(ctx context.Context, code string, emit func(Event)) (Reply, error) {
	emit(Event{Type: "stream", Name: "stdout", Text: code})
	if strings.HasPrefix(code, "wait") {
		select {
		case <-k.release:
		case <-ctx.Done():
		}
	}
	return Reply{Count: 1}, nil
}
func (echoKernel) Interrupt() error              { return nil }
func (echoKernel) Restart(context.Context) error { return nil }
func (echoKernel) Close() error                  { return nil }

func newEchoTab(t testing.TB, o Options) (*Tab, echoKernel) {
	t.Helper()
	k := echoKernel{make(chan struct{}, 8)}
	o.Kernel = k
	tab, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	})
	return tab, k
}

func connectEcho(t testing.TB, o Options) (*peer, echoKernel) {
	t.Helper()
	tab, k := newEchoTab(t, o)
	return connect(t, tab), k
}

func TestDialLooksLikeColab(t *testing.T) {
	p, _ := connectEcho(t, Options{})
	r := p.request
	if r.URL.RawQuery != "access_token=to%2Bken" || r.URL.Path != "/" {
		t.Errorf("dialled %s", r.URL)
	}
	if got := r.Header.Values("Origin"); len(got) != 1 || got[0] != "https://colab.research.google.com" {
		t.Errorf("origin %q", got)
	}
	if got := r.Header.Get("Sec-WebSocket-Protocol"); got != "mcp" {
		t.Errorf("subprotocol %q", got)
	}
	if !strings.HasPrefix(r.Host, "localhost:") || r.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("host %q, extensions %q", r.Host, r.Header.Get("Sec-WebSocket-Extensions"))
	}
}

// The list is compared with the capture, whose order of keys means nothing.
func TestToolListIsTheCapturedOne(t *testing.T) {
	p, _ := connectEcho(t, Options{})
	var got struct {
		Tools []struct {
			Name         string          `json:"name"`
			InputSchema  json.RawMessage `json:"inputSchema"`
			OutputSchema json.RawMessage `json:"outputSchema"`
			Annotations  json.RawMessage `json:"annotations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(p.call("tools/list", "{}").Result, &got); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, tool := range got.Tools {
		if tool.OutputSchema != nil || tool.Annotations != nil {
			t.Errorf("%s has an output schema or annotations", tool.Name)
		}
		var schema map[string]any
		d := json.NewDecoder(bytes.NewReader(tool.InputSchema))
		d.UseNumber()
		if err := d.Decode(&schema); err != nil {
			t.Fatal(err)
		}
		for _, p := range schema["properties"].(map[string]any) {
			delete(p.(map[string]any), "description") // not captured
		}
		line, _ := json.Marshal(schema)
		fmt.Fprintf(&b, "%s %s\n", tool.Name, line)
	}
	want, err := os.ReadFile("testdata/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("tools:\n%s\nwant\n%s", b.String(), want)
	}
}

func TestFreshNotebookHasOneEmptyCell(t *testing.T) {
	p, _ := connectEcho(t, Options{})
	r := p.toolResult("get_cells", obj{})
	want := regexp.MustCompile(`^\{"cells":\[\{"cell_type":"code","id":"[A-Za-z0-9_-]{12}","source":\[\]\}\]\}$`)
	if !want.Match(r.Structured) || r.Content[0].Text != string(r.Structured) {
		t.Errorf("structured %s, text %s", r.Structured, r.Content[0].Text)
	}
}

func TestEditsKeepIDsAndClampIndexes(t *testing.T) {
	p, _ := connectEcho(t, Options{})
	first := p.cells(obj{})[0].ID
	b := p.addCode("b\nc")
	var added struct{ NewCellID string }
	p.payload("add_text_cell", obj{"cellIndex": 1, "content": "# t"}, &added)
	order := func() string {
		var ids []string
		for _, c := range p.cells(obj{}) {
			ids = append(ids, c.ID)
		}
		return strings.Join(ids, " ")
	}
	want := func(ids ...string) {
		t.Helper()
		if got := order(); got != strings.Join(ids, " ") {
			t.Errorf("order %s, want %s", got, ids)
		}
	}
	want(first, added.NewCellID, b)
	var empty struct{}
	p.payload("move_cell", obj{"cellId": first, "cellIndex": 9007199254740991}, &empty)
	want(added.NewCellID, b, first)
	p.payload("move_cell", obj{"cellId": first, "cellIndex": 0}, &empty)
	p.payload("update_cell", obj{"cellId": b, "content": "new\n"}, &empty)
	want(first, added.NewCellID, b)
	c := p.cells(obj{"cellIndexStart": 1, "cellIndexEnd": 9007199254740991})
	if len(c) != 2 || c[0].Kind != "markdown" || c[1].Source[0] != "new\n" || len(c[1].Source) != 1 {
		t.Errorf("cells from 1 on: %+v", c)
	}
	if c := p.cells(obj{"cellIndexStart": 2, "cellIndexEnd": 1}); len(c) != 0 {
		t.Errorf("start past end: %+v", c)
	}
	if c := p.cells(obj{"cellIndexStart": 50}); len(c) != 0 {
		t.Errorf("start past the last cell: %+v", c)
	}
	p.payload("delete_cell", obj{"cellId": b}, &empty)
	want(first, added.NewCellID)
}

func TestErrorsUseColabsWords(t *testing.T) {
	p, _ := connectEcho(t, Options{})
	for _, c := range []struct {
		tool string
		args any
		want string
	}{
		{"move_cell", obj{"cellId": "x"}, "Invalid arguments for move_cell: cellIndex Required (received undefined)"},
		{"move_cell", obj{"cellId": "x", "cellIndex": 0}, "No cell was found with ID 'x'"},
		{"update_cell", obj{"cellId": "x", "content": ""}, "No cell was found with ID 'x'"},
		{"delete_cell", obj{"cellId": "x"}, "No cell was found with ID 'x'"},
		{"run_code_cell", obj{"cellId": "x"}, "No cell was found with ID 'x'"},
		{"run_code_cell", obj{"cellId": 7}, "Invalid arguments for run_code_cell: cellId Expected string, received number"},
		{"get_cells", obj{"cellIndexStart": -1}, "Invalid arguments for get_cells: cellIndexStart Number must be greater than or equal to 0"},
		{"get_cells", obj{"cellIndexEnd": 1.5}, "Invalid arguments for get_cells: cellIndexEnd Expected integer, received float"},
		{"get_cells", obj{"cellIndexEnd": 1e300}, "Invalid arguments for get_cells: cellIndexEnd Number must be less than or equal to 9007199254740991"},
		{"get_cells", obj{"includeOutputs": "true"}, "Invalid arguments for get_cells: includeOutputs Expected boolean, received string"},
		{"get_cells", obj{"wait_for_previous": true}, "Invalid arguments for get_cells: Unrecognized key(s) in object: 'wait_for_previous'"},
		{"add_code_cell", obj{"cellIndex": 0, "language": "perl", "code": ""}, "Invalid arguments for add_code_cell: language Invalid enum value. Expected 'python' | 'r' | 'julia', received 'perl'"},
		{"add_text_cell", []int{}, "Invalid arguments for add_text_cell: Expected object"},
	} {
		r := p.toolResult(c.tool, c.args)
		if !r.IsError || r.Content[0].Text != c.want || r.Structured != nil {
			t.Errorf("%s %v: %+v, want %q", c.tool, c.args, r, c.want)
		}
	}
	var md struct{ NewCellID string }
	p.payload("add_text_cell", obj{"cellIndex": 0, "content": "x"}, &md)
	if r := p.toolResult("run_code_cell", obj{"cellId": md.NewCellID}); !r.IsError {
		t.Errorf("a text cell was run: %+v", r)
	}
	if a := p.call("tools/call", `{"name":"get_cells"}`); a.Error != nil {
		t.Errorf("without arguments: %+v", a.Error)
	}
	if a := p.call("tools/call", `{"name":"nope","arguments":{}}`); a.Error == nil {
		t.Error("an unknown tool was called")
	}
}

func TestReadsAndEditsDoNotWaitForARun(t *testing.T) {
	p, k := connectEcho(t, Options{})
	id := p.addCode("wait\n")
	_, running := p.startTool("run_code_cell", obj{"cellId": id})
	_, queued := p.startTool("run_code_cell", obj{"cellId": id})
	for {
		c := p.cells(obj{"cellIndexStart": 1, "includeOutputs": true})[0]
		if text(c, "stdout") == "wait\n" && c.Count == nil {
			break
		}
	}
	var empty struct{}
	p.payload("update_cell", obj{"cellId": id, "content": "other"}, &empty)
	p.payload("delete_cell", obj{"cellId": id}, &empty)
	select {
	case <-running:
		t.Error("answered while running")
	default:
	}
	k.release <- struct{}{}
	k.release <- struct{}{}
	for _, ch := range []chan answer{running, queued} { // with the source of the moment they were asked for
		if r := p.decode(<-ch); !strings.Contains(string(r.Structured), `["wait\n"]`) {
			t.Errorf("run of a deleted cell: %+v", r)
		}
	}
}

// Requests of one connection take effect in the order they arrive, as in a page's event loop.
func TestCallsTakeEffectInOrder(t *testing.T) {
	p, _ := connectEcho(t, Options{})
	id := p.addCode("")
	var runs []chan answer
	for i := range 200 {
		p.startTool("update_cell", obj{"cellId": id, "content": fmt.Sprint(i)})
		_, ch := p.startTool("run_code_cell", obj{"cellId": id})
		runs = append(runs, ch)
	}
	for i, ch := range runs {
		if r := p.decode(<-ch); !strings.Contains(string(r.Structured), fmt.Sprintf(`["%d"]`, i)) {
			t.Fatalf("run %d showed %s", i, r.Structured)
		}
	}
}

func TestFramesThatAreNoMessagesArePassedOver(t *testing.T) {
	p, _ := connectEcho(t, Options{})
	for _, frame := range []string{`hello`, `{"jsonrpc":`, `[]`, `{"a":1}`, `null`, ``} {
		p.send(frame)
	}
	if len(p.cells(obj{})) != 1 {
		t.Error("the tab is gone")
	}
}

// The bridge side of the library has no limit here; the tab's is 128 MiB.
func TestFramesOfTensOfMegabytes(t *testing.T) {
	p, _ := connectEcho(t, Options{})
	code := strings.Repeat("0123456789abcde\n", 1<<20) // 16 MiB in, over 40 out
	id := p.addCode(code)
	_, ch := p.startTool("run_code_cell", obj{"cellId": id})
	if n := bytes.Count((<-ch).Result, []byte("0123456789abcde")); n != 2<<20 {
		t.Errorf("%d lines, want %d", n, 2<<20)
	}
}

func TestServeReportsWhyTheBridgeClosed(t *testing.T) {
	for code, want := range map[websocket.StatusCode]bool{1000: false, 1001: false, 1013: true, 4001: true} {
		tab, _ := newEchoTab(t, Options{})
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}, InsecureSkipVerify: true})
			if err == nil {
				ws.Close(code, "why")
			}
		}))
		conn, _, err := websocket.Dial(t.Context(), srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = tab.Serve(t.Context(), conn)
		if got := websocket.CloseStatus(err) == code; got != want || want != (err != nil) {
			t.Errorf("closed with %d: %v", code, err)
		}
		srv.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}, InsecureSkipVerify: true})
		if err == nil {
			ws.Write(r.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			ws.Read(r.Context()) // the tab serves
			cancel()
			_, _, err = ws.Read(context.Background())
		}
		closed <- err
	}))
	defer srv.Close()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, srv.Listener.Addr().String())
	}
	if err := Run(ctx, "#mcpProxyToken=t&mcpProxyPort=1", Options{Kernel: echoKernel{}, Dial: dial}); err != nil {
		t.Error(err)
	}
	if code := websocket.CloseStatus(<-closed); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d", code)
	}
}

func TestErrorsOfTheDialCarryNoToken(t *testing.T) { // S4
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "wrong token", http.StatusForbidden)
	}))
	defer srv.Close()
	for addr, refused := range map[string]bool{srv.Listener.Addr().String(): true, "127.0.0.1:1": false} {
		err := Run(t.Context(), "https://colab.research.google.com/#mcpProxyToken=SECRET&mcpProxyPort=1", Options{
			Kernel: echoKernel{}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			}})
		e, ok := errors.AsType[*RefusedError](err)
		if err == nil || strings.Contains(err.Error(), "SECRET") || ok != refused || ok && (e.Status != 403 || e.Reason != "wrong token") {
			t.Errorf("error %v", err)
		}
	}
}

func TestLinks(t *testing.T) {
	for link, want := range map[string]target{
		"https://colab.research.google.com/drive/ID?m=1#mcpProxyToken=a&mcpProxyPort=80": {"a", 80},
		"https://x/#scrollTo=aB-3&mcpProxyToken=a%26b%2B&mcpProxyPort=65535":             {"a&b+", 65535},
		"https://x/#mcpProxyPort=80":                         {},
		"https://x/?mcpProxyToken=SECRET&mcpProxyPort=80":    {},
		"https://x/#mcpProxyToken=SECRET&mcpProxyPort=0":     {},
		"https://x/#mcpProxyToken=SECRET&mcpProxyPort=65536": {},
		"https://x/#mcpProxyToken=SECRET%zz&mcpProxyPort=1":  {},
		"\x7f#mcpProxyToken=SECRET&mcpProxyPort=1":           {},
		"": {},
	} {
		got, err := parseLink(link)
		switch {
		case want == target{}:
			if !errors.Is(err, ErrLink) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%q: %v", link, err)
			}
		case err != nil || got != want:
			t.Errorf("%q: %+v, %v", link, got, err)
		}
	}
}
