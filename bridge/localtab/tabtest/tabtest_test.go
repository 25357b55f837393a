package tabtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"colab-mcp/bridge/localtab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bridge is the other side of a far tab, as small as it can be.
type bridge struct {
	t    *testing.T
	net  Net
	link string
	srv  *http.Server
	next chan *websocket.Conn

	ws   *websocket.Conn
	last int

	mu     sync.Mutex
	frames []string // of the tab, in order
	done   sync.WaitGroup
}

func newBridge(t *testing.T) *bridge {
	b := &bridge{t: t, next: make(chan *websocket.Conn, 1)}
	l := b.net.Listen()
	b.link = fmt.Sprintf("https://colab.research.google.com/notebooks/empty.ipynb#mcpProxyToken=t&mcpProxyPort=%d", l.Addr().(*net.TCPAddr).Port)
	b.srv = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("access_token") != "t" || r.Header.Get("Origin") != "https://colab.research.google.com" {
			http.Error(w, "wrong token or origin", http.StatusForbidden)
			return
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}, InsecureSkipVerify: true})
		if err != nil {
			t.Error(err)
			return
		}
		ws.SetReadLimit(-1)
		b.next <- ws
	})}
	b.done.Go(func() { b.srv.Serve(l) })
	t.Cleanup(func() {
		b.srv.Close()
		b.done.Wait()
	})
	return b
}

// dial connects a far tab; b talks to the newest one.
func (b *bridge) dial(k Knobs) *FarTab {
	f := Dial(b.t, &b.net, b.link, k)
	ws := <-b.next
	b.ws = ws
	b.done.Go(func() {
		for {
			_, frame, err := ws.Read(context.Background())
			if err != nil {
				ws.CloseNow()
				return
			}
			b.mu.Lock()
			b.frames = append(b.frames, string(frame))
			b.mu.Unlock()
		}
	})
	return f
}

func (b *bridge) initialize() {
	b.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	b.ws.Write(context.Background(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	synctest.Wait()
}

// request sends a request and returns its id.
func (b *bridge) request(method, params string) int {
	b.t.Helper()
	b.last++
	b.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, b.last, method, params))
	return b.last
}

func (b *bridge) write(frame string) {
	b.t.Helper()
	if err := b.ws.Write(context.Background(), websocket.MessageText, []byte(frame)); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func (b *bridge) tool(name, args string) int {
	b.t.Helper()
	return b.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":7}}`, name, args))
}

// answer returns the answer with that id, "" if there is none yet.
func (b *bridge) answer(id int) string {
	for _, f := range b.all() {
		var h struct {
			ID     any
			Method string
		}
		json.Unmarshal([]byte(f), &h)
		if h.ID == float64(id) && h.Method == "" {
			return f
		}
	}
	return ""
}

func (b *bridge) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.frames...)
}

func (b *bridge) wants(id int, parts ...string) {
	b.t.Helper()
	a := b.answer(id)
	for _, p := range parts {
		if !strings.Contains(a, p) {
			b.t.Errorf("answer %d is %q, want %q in it", id, a, p)
		}
	}
}

// cell adds a cell with that script and returns its id.
func (b *bridge) cell(script string) string {
	b.t.Helper()
	args, _ := json.Marshal(map[string]any{"cellIndex": 9999, "language": "python", "code": script})
	m := newCellID.FindStringSubmatch(b.answer(b.tool("add_code_cell", string(args))))
	if m == nil {
		b.t.Fatalf("no cell was added")
	}
	return m[1]
}

// newCellID matches in either envelope.
var newCellID = regexp.MustCompile(`newCellId\\?":\\?"([\w-]{12})\\?"`)

func (b *bridge) run(script string) int {
	b.t.Helper()
	return b.tool("run_code_cell", fmt.Sprintf(`{"cellId":%q}`, b.cell(script)))
}

func (b *bridge) silent(id int) {
	b.t.Helper()
	if a := b.answer(id); a != "" {
		b.t.Errorf("request %d was answered: %s", id, a)
	}
}

// bubble runs f against a far tab that is initialised unless it never will be.
func bubble(t *testing.T, k Knobs, f func(t *testing.T, b *bridge, tab *FarTab)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		tab := b.dial(k)
		b.initialize()
		f(t, b, tab)
	})
}

func TestScriptRunsInVirtualTime(t *testing.T) {
	bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
		begun := time.Now()
		id := b.run("print a\nsleep 6h\nstderr b\nresult 42\nimage png\nx = 1")
		b.silent(id)
		list := b.tool("get_cells", `{"cellIndexStart":1,"includeOutputs":true}`)
		b.wants(list, `"execution_count":null,"outputs":[{"output_type":"stream","name":"stdout","text":["a\n"]}]`)
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		b.wants(id, `"text":["a\n"]`, `"name":"stderr"`, `"text/plain":["42"]`, PNG)
		if d := f.Received()[len(f.Received())-1].Time.Sub(begun); d > time.Second {
			t.Errorf("get_cells arrived %v after the start", d)
		}
		if f.RunsInFlight() != 0 || f.MaxRunsInFlight() != 1 {
			t.Errorf("%d runs in flight, at most %d", f.RunsInFlight(), f.MaxRunsInFlight())
		}
	})
}

func TestScriptVerbs(t *testing.T) {
	for _, c := range []struct{ script, outputs, count string }{
		{"error ValueError no good\nprint never", `{"output_type":"error","ename":"ValueError","evalue":"no good"`, "1"},
		{"empty", `"outputs":[]`, "null"},
		{"restart\nprint never", `"outputs":[]`, "null"},
		{"print a\nclear wait\nprint b", `"text":["b\n"]`, "1"},
		{"progress 0.1s 2", `100%|##########| 2/2\n`, "1"},
	} {
		bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
			id := b.run(c.script)
			time.Sleep(time.Minute)
			synctest.Wait()
			b.wants(id, c.outputs)
			if strings.Contains(b.answer(id), "never") {
				t.Errorf("%q went on: %s", c.script, b.answer(id))
			}
			b.wants(b.tool("get_cells", `{"cellIndexStart":1,"includeOutputs":true}`), `"execution_count":`+c.count)
		})
	}
}

func TestCountsBeginAgainAfterARestart(t *testing.T) {
	bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
		for _, script := range []string{"result a", "result b", "restart", "result c"} {
			b.run(script)
		}
		b.wants(b.tool("get_cells", `{"cellIndexStart":2,"includeOutputs":true}`), `"execution_count":2`, `"execution_count":null`, `"execution_count":1`)
	})
}

func TestHangEndsWithAnInterrupt(t *testing.T) {
	bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
		id := b.run("hang")
		queued := b.run("print next")
		time.Sleep(time.Hour)
		b.silent(id)
		b.silent(queued)
		f.Tab.Interrupt()
		synctest.Wait()
		b.wants(id, "KeyboardInterrupt")
		b.wants(queued, "next")
		if f.MaxRunsInFlight() != 2 {
			t.Errorf("at most %d runs in flight, want 2", f.MaxRunsInFlight())
		}
	})
}

func TestHandlerPlaysPython(t *testing.T) {
	bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
		f.Kernel.On("import hashlib", func(ctx context.Context, code string, s Screen) {
			s.Write(fmt.Sprintf("len %d count %d\n", len(code), s.Count()))
			<-ctx.Done()
		})
		id := b.run("import hashlib\n")
		b.silent(id)
		f.Tab.Interrupt()
		synctest.Wait()
		b.wants(id, "len 15 count 1")
		if got := f.Kernel.Ran(); len(got) != 1 || got[0] != "import hashlib\n" {
			t.Errorf("ran %q", got)
		}
	})
}

// A cancelled request is not answered, and its cell runs to its end.
func TestCancelledRunStaysSilentAndGoesOn(t *testing.T) {
	bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
		id := b.run("sleep 5m\nprint done")
		b.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		b.silent(id)
		b.wants(b.tool("get_cells", `{"includeOutputs":true}`), `"text":["done\n"]`)
	})
}

func TestNothingIsServedBeforeInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		b.dial(Knobs{})
		b.wants(b.tool("get_cells", `{}`), `"error"`)
	})
}

func TestHandshakeKnobs(t *testing.T) {
	bubble(t, Knobs{NoInitialize: true}, func(t *testing.T, b *bridge, f *FarTab) {
		time.Sleep(time.Hour)
		b.silent(1)
	})
	for mode, want := range map[ListMode]string{
		ListWell: "run_code_cell", ListFails: `"error"`, ListHangs: "", ListEmpty: `"tools":[]`,
		ListEndless: `"nextCursor":"1"`, ListRepeats: `"nextCursor":"again"`, ListTwo: `"nextCursor":"second"`,
	} {
		bubble(t, Knobs{ToolsList: mode}, func(t *testing.T, b *bridge, f *FarTab) {
			id := b.request("tools/list", `{}`)
			if want == "" {
				b.silent(id)
			} else {
				b.wants(id, want)
			}
			if mode == ListTwo {
				b.wants(b.request("tools/list", `{"cursor":"second"}`), "update_cell")
			}
		})
	}
}

func TestExtraTools(t *testing.T) {
	odd := []json.RawMessage{Tool("odd", `{"anyOf":[{"type":"object"}]}`), Tool("bare", "")}
	bubble(t, Knobs{ExtraTools: odd, WithoutTools: []string{"move_cell"}}, func(t *testing.T, b *bridge, f *FarTab) {
		id := b.request("tools/list", `{}`)
		b.wants(id, `{"description":"Tool bare of a test.","name":"bare"}`, "anyOf")
		if strings.Contains(b.answer(id), "move_cell") {
			t.Error("move_cell is listed")
		}
		b.wants(b.tool("odd", `{"x":9007199254740993}`), `{\"x\":9007199254740993}`)
		before := len(b.all())
		f.AddTools(50*time.Millisecond, Tool("a", `{"type":["object"]}`), Tool("b", `{}`))
		synctest.Wait()
		for _, frame := range b.all()[before:] {
			if !strings.Contains(frame, "list_changed") {
				t.Errorf("unexpected %s", frame)
			}
		}
		if n := len(b.all()) - before; n != 2 {
			t.Errorf("%d announcements, want 2", n)
		}
		b.wants(b.request("tools/list", `{}`), `"name":"a"`, `"name":"b"`)
	})
}

func TestSwallowDelayAnswerFail(t *testing.T) {
	k := Knobs{
		Swallow: []string{"get_cells"}, Delay: map[string]time.Duration{"update_cell": time.Minute},
		Answer: map[string]string{"move_cell": `{"n":1e400}`}, Fail: map[string]string{"delete_cell": "no <b>"},
	}
	bubble(t, k, func(t *testing.T, b *bridge, f *FarTab) {
		cell := b.cell("x")
		get := b.tool("get_cells", `{}`)
		update := b.tool("update_cell", fmt.Sprintf(`{"cellId":%q,"content":"y"}`, cell))
		b.silent(get)
		b.silent(update)
		b.wants(b.tool("move_cell", `{}`), `"result":{"n":1e400}`)
		b.wants(b.tool("delete_cell", `{}`), `"isError":true`)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants(update, `"result"`)
		f.Release()
		synctest.Wait()
		b.wants(get, `"cells"`)
	})
}

func TestNotificationsDuringACall(t *testing.T) {
	bubble(t, Knobs{Progress: 2, Logs: 1}, func(t *testing.T, b *bridge, f *FarTab) {
		b.tool("get_cells", `{}`)
		all := strings.Join(b.all(), "\n")
		for _, want := range []string{`"progressToken":7,"progress":1`, `"progress":2,"total":2`, `"data":"log 1"`} {
			if !strings.Contains(all, want) {
				t.Errorf("no %s in %s", want, all)
			}
		}
	})
}

func TestPayloadShapes(t *testing.T) {
	bubble(t, Knobs{StringText: true, NoIDs: true, NoCounts: true}, func(t *testing.T, b *bridge, f *FarTab) {
		b.wants(b.run("print 9007199254740993\nprint a<b"), `"text":"9007199254740993\na<b\n"`)
		id := b.tool("get_cells", `{"includeOutputs":true}`)
		b.wants(id, `"source":"print 9007199254740993\nprint a<b"`, `\"source\":\"print`)
		for _, gone := range []string{`"id":"`, "execution_count"} {
			if strings.Contains(b.answer(id), gone) {
				t.Errorf("%s is there: %s", gone, b.answer(id))
			}
		}
	})
	for _, o := range []localtab.Options{{TextOnly: true}, {StructuredOnly: true}, {DialogOpen: true}} {
		bubble(t, Knobs{Options: o}, func(t *testing.T, b *bridge, f *FarTab) {
			a := b.answer(b.run("print x"))
			if strings.Contains(a, "structuredContent") == o.TextOnly || strings.Contains(a, `"content":[]`) != o.StructuredOnly {
				t.Errorf("%+v: %s", o, a)
			}
			if o.DialogOpen && !strings.Contains(a, `"structuredContent":{"outputs":[]}`) {
				t.Errorf("dialog open: %s", a)
			}
		})
	}
}

// A frozen page answers pings; the thaw delivers everything in order.
func TestFreezeAndThaw(t *testing.T) {
	bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
		f.Freeze()
		one, two := b.tool("get_cells", `{}`), b.tool("get_cells", `{}`)
		if err := b.ws.Ping(t.Context()); err != nil {
			t.Errorf("ping of a frozen page: %v", err)
		}
		b.silent(one)
		f.Thaw()
		synctest.Wait()
		b.wants(one, `"cells"`)
		b.wants(two, `"cells"`)
	})
}

func TestStopReadingAnswersNoPing(t *testing.T) {
	bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
		f.StopReading()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.ws.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ping: %v", err)
		}
	})
}

func TestDrops(t *testing.T) {
	bubble(t, Knobs{DropRunAfter: 100 * time.Millisecond}, func(t *testing.T, b *bridge, f *FarTab) {
		id := b.run("sleep 1s\nprint ran on")
		time.Sleep(2 * time.Second)
		<-f.Gone()
		b.silent(id)
		// L3: the cell ran on, and a tab that comes back shows it.
		b.dial(Knobs{Reuse: f})
		b.initialize()
		b.wants(b.tool("get_cells", `{"includeOutputs":true}`), `"text":["ran on\n"]`, `"execution_count":1`)
	})
	bubble(t, Knobs{DropAtMessage: 3, DropCode: 1001}, func(t *testing.T, b *bridge, f *FarTab) {
		id := b.request("tools/list", `{}`)
		<-f.Gone()
		b.silent(id)
	})
}

func TestInjectedFramesAndOwnRequests(t *testing.T) {
	bubble(t, Knobs{}, func(t *testing.T, b *bridge, f *FarTab) {
		f.Inject(`{"jsonrpc":`)
		f.InjectBinary([]byte{0xff})
		id := f.Request("ping", `{}`)
		synctest.Wait()
		all := b.all()
		if len(all) < 3 || all[len(all)-3] != `{"jsonrpc":` || all[len(all)-2] != "\xff" {
			t.Errorf("frames %q", all)
		}
		b.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{}}`, id))
		if got := string(f.Replies()[id]); !strings.Contains(got, `"result":{}`) {
			t.Errorf("reply %q", got)
		}
	})
}

func TestRefusalAndCloseCodeAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t)
		_, err := TryDial(t, &b.net, strings.Replace(b.link, "Token=t", "Token=SECRET", 1), Knobs{})
		refused, ok := errors.AsType[*localtab.RefusedError](err)
		if !ok || refused.Status != 403 || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("error %v", err)
		}
		raw := RawOf(&b.net, b.link)
		raw.Header.Set("Origin", "null")
		if _, resp, err := raw.Dial(t.Context()); err == nil || resp == nil || resp.StatusCode != 403 {
			t.Errorf("origin null: %v", err)
		}
		f := b.dial(Knobs{})
		b.ws.Close(1013, "another tab")
		<-f.Gone()
		if code, reason := f.CloseCode(); code != 1013 || reason != "another tab" {
			t.Errorf("closed with %d %q", code, reason)
		}
	})
}

func TestConnectToNobodyIsRefused(t *testing.T) {
	var n Net
	if _, err := n.Dial(t.Context(), "tcp", "localhost:1"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
}
