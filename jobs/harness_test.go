package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
	"colab-mcp/bridge/stdio"
	"colab-mcp/jobs"
	"colab-mcp/notebook"
	"colab-mcp/state"
)

// desk is an agent at its desk: an MCP client, the server's tools, a bridge and
// a far tab, wired as the program wires them.
type desk struct {
	t      testing.TB
	o      setup
	bridge *bridge.Bridge
	jobs   *jobs.Manager
	nb     *notebook.Notebook
	agent  *mcp.ClientSession
	server *mcp.ServerSession
	pipe   *stdio.Transport
	wire   *wire

	dialling sync.WaitGroup

	mu     sync.Mutex // guards all below
	tab    *tabtest.FarTab
	opened int // links that went to the browser
	away   bool
	errs   map[float64]error // of calls, by number
	calls  float64
	said   map[float64][]*mcp.ProgressNotificationParams
	temps  []notebook.Temp
}

// setup is what differs between desks. The zero value is the usual one.
type setup struct {
	soft      time.Duration // default 45 s
	client    string        // clientInfo.name
	maxOutput int
	knobs     tabtest.Knobs              // of the first tab
	noReopen  bool                       // a dropped tab comes back by reconnect only
	records   *state.Blobs               // default: in memory
	outputs   *state.Blobs               // default: in memory
	temps     []notebook.Temp            // left by an earlier process
	serve     func(d *desk, link string) // another far end than a tabtest one, over the real loopback
}

const driveLink = "https://colab.research.google.com/drive/1AbCdEfGhIjKlMnOpQrStUvWxYz012345"

// virtual runs f at a desk with a connected tab, in virtual time.
func virtual(t *testing.T, o setup, f func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, o)
		defer d.close()
		d.open()
		f(d)
	})
}

func newDesk(t testing.TB, o setup) *desk {
	t.Helper()
	d := &desk{t: t, o: o, errs: map[float64]error{}, said: map[float64][]*mcp.ProgressNotificationParams{}, temps: o.temps}
	if d.o.records == nil {
		d.o.records = memory(t, "jobs", jobs.RecordLimits)
	}
	if d.o.outputs == nil {
		d.o.outputs = memory(t, "outputs", jobs.OutputLimits)
	}
	var toolbox *bridge.Toolbox
	var lo tabtest.Net
	opts := bridge.Options{
		Version: "test", NoReopen: o.noReopen,
		Listen:  func(int) ([]net.Listener, error) { return []net.Listener{lo.Listen()}, nil },
		Browse:  func(_ context.Context, link string) error { d.browse(&lo, link); return nil },
		Busy:    func() (string, time.Time, bool) { return d.jobs.Busy() },
		OnTools: func(tools []bridge.Tool) { toolbox.Follow(tools) },
		OnReady: func(tab *bridge.Tab) {
			d.jobs.Found(context.Background(), tab, d.bridge.Status().Notebook)
			if err := d.nb.Sweep(context.Background(), tab); err != nil {
				t.Logf("not swept: %v", err)
			}
		},
	}
	if o.serve != nil {
		opts.Listen = nil
	}
	d.bridge = bridge.New(opts)
	d.nb = notebook.New(o.temps, nil)
	d.nb.Where = func() string { return d.bridge.Status().Notebook }
	d.nb.Keep = func(list []notebook.Temp) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.temps = list
	}
	d.jobs = jobs.New(jobs.Options{Bridge: d.bridge, Notebook: d.nb, SoftLimit: o.soft, Records: d.o.records, Outputs: d.o.outputs})

	server := mcp.NewServer(&mcp.Implementation{Name: "colab-mcp", Version: "test"}, nil)
	server.AddReceivingMiddleware(d.remember)
	d.pipe = &stdio.Transport{}
	toolbox = &bridge.Toolbox{Server: server, Bridge: d.bridge, Splice: d.pipe.Splice, MaxOutput: o.maxOutput}
	bridge.AddTools(toolbox)
	local, err := notebook.NewLocal(nil)
	if err != nil {
		t.Fatal(err)
	}
	notebook.AddTools(toolbox, d.nb, local)
	jobs.AddTools(toolbox, d.jobs)
	if err := d.bridge.Start(); err != nil {
		t.Fatal(err)
	}
	d.connectAgent(server)
	return d
}

func memory(t testing.TB, name string, limits state.Limits) *state.Blobs {
	b, err := state.Memory().Blobs(name, limits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wire records what the server sends.
type wire struct {
	io.Writer
	mu   sync.Mutex
	sent []byte
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.sent = append(w.sent, p...)
	w.mu.Unlock()
	return w.Writer.Write(p)
}

func (w *wire) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.sent)
}

func (d *desk) connectAgent(server *mcp.Server) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	d.wire = &wire{Writer: out}
	d.pipe.In, d.pipe.Out = in, d.wire
	var err error
	if d.server, err = server.Connect(context.Background(), d.pipe, nil); err != nil {
		d.t.Fatal(err)
	}
	name := d.o.client
	if name == "" {
		name = "agent"
	}
	agent := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if n, ok := req.Params.ProgressToken.(float64); ok {
				d.said[n] = append(d.said[n], req.Params)
			}
		},
	})
	if d.agent, err = agent.Connect(context.Background(), &mcp.IOTransport{Reader: fromServer, Writer: toServer, MaxLineLength: -1}, nil); err != nil {
		d.t.Fatal(err)
	}
}

// remember keeps the errors of calls as they are: their words are another
// package's.
func (d *desk) remember(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if call, ok := res.(*mcp.CallToolResult); ok && err == nil {
			if n, ok := req.GetParams().GetMeta()["n"].(float64); ok {
				d.mu.Lock()
				d.errs[n] = call.GetError()
				d.mu.Unlock()
			}
		}
		return res, err
	}
}

// browse is a user who presses Connect after a while, in a tab that shows the
// notebook as it was left.
func (d *desk) browse(lo *tabtest.Net, link string) {
	d.mu.Lock()
	d.opened++
	away, k := d.away, d.o.knobs
	if d.tab != nil {
		k = tabtest.Knobs{Reuse: d.tab}
	}
	d.mu.Unlock()
	if away {
		return
	}
	if d.o.serve != nil {
		d.dialling.Go(func() { d.o.serve(d, link) })
		return
	}
	d.dialling.Go(func() {
		time.Sleep(3 * time.Second)
		tab, err := tabtest.TryDial(d.t, lo, link, k)
		if err != nil {
			return // the desk was left, or the token retired
		}
		d.mu.Lock()
		d.tab = tab
		d.mu.Unlock()
	})
}

// open connects the notebook and waits until it is ready and swept.
func (d *desk) open() *tabtest.FarTab {
	d.t.Helper()
	link, err := bridge.ParseLink(driveLink)
	if err != nil {
		d.t.Fatal(err)
	}
	got, err := d.bridge.Open(context.Background(), bridge.Ask{Link: &link})
	if err != nil || !got.Ready {
		d.t.Fatalf("not connected: %+v, %v", got, err)
	}
	if d.o.serve == nil {
		synctest.Wait()
	}
	return d.far()
}

// drop cuts the connection, and waits until that is known.
func (d *desk) drop() {
	d.far().Drop()
	synctest.Wait()
}

// far is the newest far tab.
func (d *desk) far() *tabtest.FarTab {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tab
}

// links is how many links went to the browser.
func (d *desk) links() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened
}

// left is what the next process would be told of temporary cells.
func (d *desk) left() []notebook.Temp {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.temps)
}

// leave is a user who presses nothing any more.
func (d *desk) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = true
}

// close ends everything in the program's order.
func (d *desk) close() {
	d.leave()
	d.jobs.Stop()
	d.bridge.Close()
	d.jobs.Close()
	d.dialling.Wait()
	d.agent.Close()
	d.server.Wait()
	<-d.pipe.Released()
}

// reply is what the agent got for one call.
type reply struct {
	err    error // the tool's own, or the call's
	text   string
	result *mcp.CallToolResult
}

// pending is a call on its way.
type pending struct {
	d      *desk
	n      float64
	cancel context.CancelFunc
	done   chan struct{}
	reply  reply
}

// start calls a tool and does not wait. watched calls carry a progress token.
func (d *desk) start(tool string, args any, watched ...bool) *pending {
	d.t.Helper()
	raw, ok := args.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(args); err != nil {
			d.t.Fatal(err)
		}
	}
	d.mu.Lock()
	d.calls++
	p := &pending{d: d, n: d.calls, done: make(chan struct{})}
	d.mu.Unlock()
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	params := &mcp.CallToolParams{Name: tool, Arguments: raw, Meta: mcp.Meta{"n": p.n}}
	if len(watched) > 0 {
		params.SetProgressToken(int(p.n))
	}
	go func() {
		defer close(p.done)
		defer p.cancel()
		res, err := d.agent.CallTool(ctx, params)
		p.reply = reply{err: err, result: res}
		if err != nil {
			return
		}
		d.mu.Lock()
		p.reply.err = d.errs[p.n]
		d.mu.Unlock()
		if len(res.Content) > 0 {
			if text, ok := res.Content[0].(*mcp.TextContent); ok {
				p.reply.text = text.Text
			}
		}
		if res.IsError && p.reply.err == nil {
			p.reply.err = errors.New(p.reply.text)
		}
	}()
	return p
}

// wait is the call's reply.
func (p *pending) wait() reply {
	<-p.done
	return p.reply
}

// progress is what was said of the call so far.
func (p *pending) progress() []*mcp.ProgressNotificationParams {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	return slices.Clone(p.d.said[p.n])
}

func (d *desk) call(tool string, args any) reply {
	d.t.Helper()
	return d.start(tool, args).wait()
}

// with is the arguments of a call.
type with map[string]any

func (d *desk) status(id string) jobAnswer {
	d.t.Helper()
	return as[jobAnswer](d.t, d.call("job_status", with{"job_id": id}))
}

// ended waits for a job and returns how it ended.
func (d *desk) ended(id string) jobAnswer {
	d.t.Helper()
	for {
		if s := as[jobAnswer](d.t, d.call("job_status", with{"job_id": id, "wait_s": 40})); s.Status != "running" && s.Status != "queued" {
			return s
		}
	}
}

// background starts a job and returns its id.
func (d *desk) background(tool string, args with) string {
	d.t.Helper()
	args["background"] = true
	return as[cellsAnswer](d.t, d.call(tool, args)).JobID
}

// list is the newest job's id.
func (d *desk) newest() string {
	d.t.Helper()
	list := d.jobs.List()
	if len(list) == 0 {
		d.t.Fatal("there is no job")
	}
	return list[0].ID
}

// fill makes these code cells the notebook and returns their ids.
func (d *desk) fill(sources ...string) []string {
	d.t.Helper()
	for _, c := range d.cells() {
		d.tool("delete_cell", with{"cellId": c.ID})
	}
	var ids []string
	for _, source := range sources {
		ids = append(ids, d.add(source))
	}
	return ids
}

func (d *desk) add(source string) string {
	d.t.Helper()
	added := as[struct{ NewCellID string }](d.t, d.call("add_code_cell", with{"code": source}))
	return added.NewCellID
}

// tool calls a tool that must not fail.
func (d *desk) tool(name string, args with) {
	d.t.Helper()
	if r := d.call(name, args); r.err != nil {
		d.t.Fatalf("%s: %v", name, r.err)
	}
}

// cells is the whole notebook as the tab has it, temporary cells included.
func (d *desk) cells() []notebook.Cell {
	d.t.Helper()
	r := d.call("get_cells", with{"includeOutputs": true})
	if r.err != nil {
		d.t.Fatal(r.err)
	}
	cells, err := notebook.DecodeCells(json.RawMessage(r.text))
	if err != nil {
		d.t.Fatal(err)
	}
	return cells
}

// temporary is what the notebook has beside the cells ids.
func (d *desk) temporary(ids ...string) (more []notebook.Cell) {
	d.t.Helper()
	for _, c := range d.cells() {
		if !slices.Contains(ids, c.ID) {
			more = append(more, c)
		}
	}
	return more
}

func statuses(cells []cell) (list []string) {
	for _, c := range cells {
		list = append(list, c.Status)
	}
	return list
}

// ran is what the kernel was given, our own cells apart.
func (d *desk) ran() []string {
	return slices.DeleteFunc(d.far().Kernel.Ran(), func(source string) bool {
		return len(source) > 2 && source[:2] == "#@"
	})
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}
