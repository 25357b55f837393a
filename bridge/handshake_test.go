package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// methods are those of the bridge's messages, in order.
func methods(f *tabtest.FarTab) []string {
	var out []string
	for _, m := range f.Received() {
		out = append(out, m.Method)
	}
	return out
}

// L7, tab-protocol section 2
func TestHandshakeIsTheClientsSide(t *testing.T) {
	inBubble(t, bridge.Options{Version: "1.2.3"}, func(t *testing.T, d *desk) {
		f, tab := d.connect(tabtest.Knobs{})
		got := f.Received()
		if m := methods(f); !slices.Equal(m, []string{"initialize", "notifications/initialized", "tools/list"}) {
			t.Fatalf("the bridge sent %q", m)
		}
		var init struct {
			JSONRPC string
			Params  struct {
				ProtocolVersion string
				Capabilities    map[string]any
				ClientInfo      struct{ Name, Version string }
			}
		}
		if err := json.Unmarshal(got[0].Raw, &init); err != nil {
			t.Fatal(err)
		}
		p := init.Params
		if init.JSONRPC != "2.0" || p.Capabilities == nil || p.ClientInfo.Version != "1.2.3" || p.ClientInfo.Name == "" {
			t.Errorf("initialize is %s", got[0].Raw)
		}
		if p.ProtocolVersion != "2025-06-18" && p.ProtocolVersion != "2024-11-05" {
			t.Errorf("protocol version %q is not known to work", p.ProtocolVersion)
		}
		if s := d.Status(); !s.Connected || s.State != "ready" || s.Tab == nil || s.Tab.Tools != 7 || len(s.Tab.Missing) != 0 || s.Tab.Protocol == "" {
			t.Errorf("status %+v", s)
		}
		var names []string
		for _, tool := range tab.Tools() {
			names = append(names, tool.Name)
		}
		var want []string
		for _, tool := range bridge.Catalog() {
			want = append(want, tool.Name)
		}
		if slices.Sort(names); !slices.Equal(names, slices.Sorted(slices.Values(want))) {
			t.Errorf("the tab lists %q", names)
		}
	})
}

// L7: an opener that waits says which phase hangs.
func TestNotReadyBeforeInitializeAndList(t *testing.T) {
	for name, k := range map[string]tabtest.Knobs{
		"initialize": {NoInitialize: true},
		"list":       {ToolsList: tabtest.ListHangs},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bridge.Options{UITimeout: 4 * time.Second}, func(t *testing.T, d *desk) {
				d.accepts(time.Second, k)
				o, err := d.Open(t.Context(), bridge.Ask{})
				if err != nil || o.Ready || o.Phase != "socket" {
					t.Fatalf("opened %+v, %v", o, err)
				}
				if d.Live() != nil {
					t.Error("a tab without its list is live")
				}
				if s := d.Status(); s.Connected || s.State != "socket" {
					t.Errorf("status %+v", s)
				}
				if len(o.Causes) == 0 || !strings.Contains(strings.ToLower(o.Causes[0]), "answer") {
					t.Errorf("the causes do not begin with the phase that hangs: %q", o.Causes)
				}
			})
		})
	}
}

// L7: a page that never gets through the handshake does not hold the place for ever.
func TestHangingHandshakeGivesUpItsPlace(t *testing.T) {
	for name, k := range map[string]tabtest.Knobs{
		"initialize": {NoInitialize: true},
		"list":       {ToolsList: tabtest.ListHangs},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				f := d.dial(k)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				select {
				case <-f.Gone():
				default:
					t.Fatalf("the place is still taken: %+v", d.Status())
				}
				d.connect(tabtest.Knobs{})
			})
		})
	}
}

// L7: pages followed and bounded.
func TestToolListPagesAreFollowedAndBounded(t *testing.T) {
	t.Run("two", func(t *testing.T) {
		inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
			_, tab := d.connect(tabtest.Knobs{ToolsList: tabtest.ListTwo, ExtraTools: []json.RawMessage{tabtest.Tool("foo", `{"type":"object"}`)}})
			if _, ok := tab.Lists("foo"); !ok || len(tab.Tools()) != 8 {
				t.Errorf("%d tools of two pages", len(tab.Tools()))
			}
		})
	})
	t.Run("huge", func(t *testing.T) {
		inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
			many := make([]json.RawMessage, 2000)
			for i := range many {
				many[i] = tabtest.Tool(fmt.Sprintf("foo_%d", i), `{"type":"object"}`)
			}
			if _, tab := d.connect(tabtest.Knobs{ExtraTools: many}); len(tab.Tools()) != 1000 {
				t.Errorf("%d tools of one page were taken", len(tab.Tools()))
			}
		})
	})
	for mode, most := range map[tabtest.ListMode]int{tabtest.ListRepeats: 2, tabtest.ListEndless: 50} {
		t.Run(string(mode), func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				f := d.dial(tabtest.Knobs{ToolsList: mode})
				time.Sleep(time.Minute)
				synctest.Wait()
				n := 0
				for _, m := range methods(f) {
					if m == "tools/list" {
						n++
					}
				}
				if n == 0 || n > most {
					t.Errorf("%d pages were asked for", n)
				}
				if s := d.Status(); s.State == "socket" {
					t.Errorf("still undecided after a minute: %+v", s)
				}
			})
		})
	}
}

// L7: an empty or failed refresh keeps the last good list.
func TestFailedRefreshKeepsTheList(t *testing.T) {
	for _, mode := range []tabtest.ListMode{tabtest.ListEmpty, tabtest.ListFails, tabtest.ListHangs, tabtest.ListRepeats} {
		t.Run(string(mode), func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				f, tab := d.connect(tabtest.Knobs{})
				f.Set(func(k *tabtest.Knobs) { k.ToolsList = mode })
				f.ListChanged()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				for _, tool := range bridge.Catalog() {
					if _, ok := tab.Lists(tool.Name); !ok {
						t.Errorf("%s is gone", tool.Name)
					}
				}
				if d.Live() != tab {
					t.Fatalf("the tab was given up: %v", tab.Why())
				}
				f.Set(func(k *tabtest.Knobs) {
					k.ToolsList = tabtest.ListWell
					k.ExtraTools = []json.RawMessage{tabtest.Tool("foo", "")}
				})
				f.ListChanged()
				time.Sleep(time.Minute)
				synctest.Wait()
				if _, ok := tab.Lists("foo"); !ok {
					t.Error("the next good list was not taken")
				}
			})
		})
	}
}

// L7, tab-protocol section 5: requests from the tab are answered, in every phase.
func TestRequestsOfTheTabAreAnswered(t *testing.T) {
	for name, k := range map[string]tabtest.Knobs{"ready": {}, "before initialize": {NoInitialize: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				f := d.dial(k)
				ping := f.Request("ping", "{}")
				roots := f.Request("roots/list", "{}")
				sampling := f.Request("sampling/createMessage", `{"messages":[]}`)
				synctest.Wait()
				replies := f.Replies()
				if got, want := string(replies[ping]), fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{}}`, ping); got != want {
					t.Errorf("ping was answered %s, want %s", got, want)
				}
				for _, id := range []string{roots, sampling} {
					var r struct{ Error struct{ Code int } }
					if err := json.Unmarshal(replies[id], &r); err != nil || r.Error.Code != -32601 {
						t.Errorf("%s was answered %s, want method not found", id, replies[id])
					}
				}
			})
		})
	}
}

// A page is a far end by hand: answers by method, and what the bridge sends to it.
type page struct {
	conn *websocket.Conn
	sent chan string // requests and notifications of the bridge
}

// page dials and answers what it has a result for; "%s" in it is nothing special.
func (d *desk) page(results map[string]string) *page {
	d.t.Helper()
	conn, _, err := tabtest.RawOf(d.net, d.link()).Dial(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	p := &page{conn, make(chan string, 1000)}
	d.users.Go(func() {
		for {
			_, frame, err := conn.Read(context.Background())
			if err != nil {
				conn.CloseNow()
				return
			}
			var m struct {
				ID     json.RawMessage
				Method string
			}
			json.Unmarshal(frame, &m)
			p.sent <- m.Method
			if r, ok := results[m.Method]; ok && m.ID != nil {
				p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, r))
			}
		}
	})
	synctest.Wait()
	return p
}

func (p *page) say(frame string) {
	p.conn.Write(context.Background(), websocket.MessageText, []byte(frame))
}

const someTools = `{"tools":[{"name":"get_cells","inputSchema":{"type":"object"}},{"name":"update_cell"},{"name":"run_code_cell"}]}`

// Tab-protocol, section 5: any serverInfo, protocolVersion, extra capability.
func TestAnyInitializeResultIsTaken(t *testing.T) {
	for name, result := range map[string]string{
		"minimal":        `{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`,
		"future":         `{"protocolVersion":"2031-01-01","capabilities":{"tools":{"listChanged":true},"new":{"a":[1]}},"serverInfo":{"name":"x","version":"1","title":"t","icons":[{}]},"instructions":"i"}`,
		"no info":        `{"protocolVersion":"2025-06-18","capabilities":{}}`,
		"odd info":       `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":"colab"}`,
		"empty":          `{}`,
		"odd version":    `{"protocolVersion":20250618,"capabilities":null,"serverInfo":null}`,
		"big number":     `{"protocolVersion":"2025-06-18","capabilities":{"x":1e400},"serverInfo":{"name":"x","version":9007199254740993}}`,
		"no tools named": `{"protocolVersion":"2025-06-18","capabilities":{"resources":{}},"serverInfo":{"name":"x","version":"1"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				d.page(map[string]string{"initialize": result, "tools/list": someTools})
				if d.Live() == nil {
					t.Errorf("not ready: %+v\n%s", d.Status(), d.logged())
				}
			})
		})
	}
}

// Issue 5: status and log are of a bounded size, whatever a page says of itself.
func TestHugeServerInfoIsLeftOut(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		d.page(map[string]string{"initialize": `{"protocolVersion":"2025-06-18","serverInfo":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`, "tools/list": someTools})
		if s := d.Status(); s.Tab == nil || s.Tab.Server != nil || len(d.logged()) > 10_000 {
			t.Errorf("connected %v, %d bytes of log", s.Connected, len(d.logged()))
		}
	})
}

// Tab-protocol section 5, C6: odd entries of a list leave the good ones usable.
func TestOddToolListsAreTaken(t *testing.T) {
	for name, list := range map[string]string{
		"unknown members":  `{"tools":[{"name":"get_cells","inputSchema":{"type":"object"},"title":"t","outputSchema":{},"_meta":{},"annotations":7}],"_meta":{},"nextCursor":""}`,
		"null cursor":      `{"tools":[{"name":"get_cells","inputSchema":{"type":"object"}}],"nextCursor":null}`,
		"no schema":        `{"tools":[{"name":"get_cells"}]}`,
		"null schema":      `{"tools":[{"name":"get_cells","inputSchema":null}]}`,
		"odd schema":       `{"tools":[{"name":"get_cells","inputSchema":[1]}]}`,
		"boolean schema":   `{"tools":[{"name":"get_cells","inputSchema":true}]}`,
		"nameless":         `{"tools":[{"inputSchema":{}},{"name":"get_cells"}]}`,
		"empty name":       `{"tools":[{"name":""},{"name":"get_cells"}]}`,
		"name is a number": `{"tools":[{"name":7},{"name":"get_cells"}]}`,
		"not an object":    `{"tools":["x",null,7,[],{"name":"get_cells"}]}`,
		"odd description":  `{"tools":[{"name":"get_cells","description":{"en":"x"}}]}`,
		"twice":            `{"tools":[{"name":"get_cells"},{"name":"get_cells"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				d.page(map[string]string{"initialize": `{}`, "tools/list": list})
				tab := d.Live()
				if tab == nil {
					t.Fatalf("not ready: %+v\n%s", d.Status(), d.logged())
				}
				n := 0
				for _, tool := range tab.Tools() {
					if tool.Name == "" {
						t.Error("a tool without a name is listed")
					}
					if tool.Name == "get_cells" {
						n++
					}
				}
				if n != 1 {
					t.Errorf("get_cells is listed %d times: %v", n, tab.Tools())
				}
			})
		})
	}
}

// Design idea 10: what a live tab lacks is known.
func TestMissingToolsAreNamed(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		_, tab := d.connect(tabtest.Knobs{WithoutTools: []string{"move_cell", "run_code_cell"}})
		if got := d.Status().Tab.Missing; !slices.Equal(got, []string{"move_cell", "run_code_cell"}) {
			t.Errorf("missing %q", got)
		}
		if _, ok := tab.Lists("move_cell"); ok {
			t.Error("move_cell is listed")
		}
	})
}

// L2: every socket gets a fresh handshake and id space, and nothing of the old one.
func TestEverySocketStartsAfresh(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		first, old := d.connect(tabtest.Knobs{Swallow: []string{"get_cells"}})
		lost := later(func() (json.RawMessage, error) { return old.Call(t.Context(), "get_cells", nil, nil) })
		synctest.Wait()
		call := first.Calls("get_cells")[0]
		first.Drop()
		if o := <-lost; o.err == nil {
			t.Fatal("the lost call was answered")
		}

		second, tab := d.connect(tabtest.Knobs{Swallow: []string{"get_cells"}})
		if m := methods(second); m[0] != "initialize" || m[1] != "notifications/initialized" {
			t.Fatalf("the second socket got %q first", m)
		}
		// The old socket's answer, on the new one, answers at most a call of the new id space.
		fresh := later(func() (json.RawMessage, error) { return tab.Call(t.Context(), "get_cells", nil, nil) })
		synctest.Wait()
		if got := second.Calls("get_cells")[0].ID; string(got) != string(call.ID) {
			second.Inject(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, call.ID))
			pending(t, fresh, "the new call")
		}
		second.Release()
		if o := <-fresh; o.err != nil || !strings.Contains(string(o.result), `"cells"`) {
			t.Errorf("the new call: %s, %v", o.result, o.err)
		}
		if _, err := old.Call(t.Context(), "get_cells", nil, nil); err == nil {
			t.Error("the old tab takes calls")
		}
		if old.Why() == nil {
			t.Error("the old tab does not say why it ended")
		}
	})
}

// L2, issue 5: a hundred cycles leak nothing.
func TestReconnectsLeakNothing(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		var first, last int
		for i := range 100 {
			f, tab := d.connect(tabtest.Knobs{})
			if _, err := tab.Call(t.Context(), "get_cells", nil, nil); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				f.Drop()
			} else {
				f.Close()
			}
			<-tab.Gone()
			synctest.Wait()
			last = runtime.NumGoroutine()
			if i == 0 {
				first = last
			}
		}
		// Each far tab leaves the goroutines of its kernel until the test ends.
		if perCycle := (last - first) / 99; perCycle > 1 {
			t.Errorf("%d goroutines after one cycle, %d after a hundred", first, last)
		}
		if d.Status().State != "disconnected" {
			t.Errorf("state %s", d.Status().State)
		}
	})
}

// Options, OnTools: what the live tab offers, in order, and nil after a drop.
func TestOwnerFollowsTheToolList(t *testing.T) {
	var told []int
	o := bridge.Options{OnTools: func(tools []bridge.Tool) {
		if tools == nil {
			told = append(told, 0)
			return
		}
		told = append(told, len(tools))
	}}
	inBubble(t, o, func(t *testing.T, d *desk) {
		f, _ := d.connect(tabtest.Knobs{})
		f.AddTools(0, tabtest.Tool("foo", ""))
		time.Sleep(time.Second)
		f.ListChanged() // its answer comes together with the end
		time.Sleep(100 * time.Millisecond)
		f.Drop()
		time.Sleep(time.Minute)
		d.connect(tabtest.Knobs{})
		synctest.Wait()
		if n := len(told); n < 4 || told[0] != 7 || told[1] != 8 || told[n-2] != 0 || told[n-1] != 7 {
			t.Errorf("told %v, want 7 8 … 0 7", told)
		}
	})
}
