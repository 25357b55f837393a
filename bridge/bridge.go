package bridge

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options are what a Bridge is made of. The zero value of each field is
// useful.
type Options struct {
	Identity Identity // zero: a fresh one on any port
	Pinned   bool     // Identity.Port was asked for: no other will do
	Previous Link     // the notebook of an earlier process: named, never opened
	Version  string   // of this program, told to the tab

	// Remark is asked at the begin of a wait for one more cause why its tab may
	// not come; "" for none.
	Remark func() string

	UITimeout time.Duration // how long the user may take to accept; default 60 s
	NoReopen  bool          // never re-open a dropped tab by itself

	// Busy names what would be lost with the tab, beside what the gate knows.
	Busy func() (op string, since time.Time, busy bool)
	// Browse opens a link in the user's browser, without waiting for it to
	// close; nil opens nothing. Its errors are shown to the agent.
	Browse func(ctx context.Context, link string) error
	// Listen replaces [Listen]; tests give an in-memory one.
	Listen func(port int) ([]net.Listener, error)

	// These are called one at a time, in order, and may not call back into
	// the Bridge.
	OnIdentity func(Identity, Link)         // token, port or notebook changed
	OnTools    func([]Tool)                 // the live tool list changed; nil after a drop
	OnLog      func(params json.RawMessage) // the tab sent notifications/message
	// OnReady has a goroutine of its own, which should end with the tab.
	OnReady func(*Tab)

	// Trace sees every frame as it is on the wire, the tab's answers included,
	// before anything is made of it. It may not keep or change the frame.
	Trace func(sent bool, frame []byte)

	Log *slog.Logger // default: discard
}

func (o Options) withDefaults() Options {
	if o.UITimeout == 0 {
		o.UITimeout = time.Minute
	}
	if o.Identity.Token == "" {
		o.Identity = NewIdentity(o.Identity.Port)
	}
	if o.Listen == nil {
		o.Listen = Listen
	}
	if o.Remark == nil {
		o.Remark = func() string { return "" }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Bridge holds the place for one Colab tab. Its methods are safe for
// concurrent use.
type Bridge struct {
	opts   Options
	log    *slog.Logger
	gate   Gate
	server *http.Server
	flood  *flood
	events events

	root context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	starting sync.Mutex // held by the one that binds

	mu      sync.Mutex // guards all below; changed by update only
	st      state
	changed chan struct{} // closed at the next change
}

// state is all that changes in a Bridge's life.
type state struct {
	id        Identity
	listenErr error // why there is no listener
	bound     bool
	notebook  Link     // what the tab at this token shows; zero when nobody said
	ours      bool     // notebook was opened by this process
	opening   *opening // a tab that was asked for and is not ready
	backoff   backoff
	slot      *session // who has the one place
	drop      string   // how the last ready tab ended
	refused   map[refusal]int
	closed    bool
}

// session is one socket's stay in the slot.
type session struct {
	tab     *Tab   // nil until the socket is up
	phase   string // what its handshake waits for
	ready   bool
	retired bool          // its token is no longer good
	opening *opening      // what was asked for when it came
	over    chan struct{} // closed when the slot is free again
}

// New returns a Bridge that does not listen yet.
func New(o Options) *Bridge {
	o = o.withDefaults()
	b := &Bridge{opts: o, log: o.Log, flood: newFlood(), changed: make(chan struct{})}
	b.root, b.stop = context.WithCancel(context.Background())
	b.st = state{id: o.Identity, notebook: o.Previous, refused: map[refusal]int{}}
	b.server = &http.Server{
		Handler:        b,
		ReadTimeout:    5 * time.Second, // none of these reaches an upgraded connection
		WriteTimeout:   5 * time.Second,
		IdleTimeout:    5 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		ConnContext:    withTraffic,
		ConnState:      b.flood.state,
	}
	return b
}

// Start listens. A port that cannot be had is reported by every later use of
// the bridge, and tried again when a tab is opened: the agent's side lives on.
func (b *Bridge) Start() error {
	b.starting.Lock()
	defer b.starting.Unlock()
	b.mu.Lock()
	id, bound, closed := b.st.id, b.st.bound, b.st.closed
	b.mu.Unlock()
	if bound || closed {
		return nil
	}
	ls, err := b.opts.Listen(id.Port)
	taken := err != nil && !b.opts.Pinned && id.Port != 0
	if taken {
		b.log.Warn("saved port is taken, using another", "port", id.Port, "err", err)
		ls, err = b.opts.Listen(0)
	}
	b.update(func(s *state) {
		if s.listenErr = err; err != nil || s.closed {
			closeAll(ls)
			return
		}
		s.bound = true
		if taken { // the old link is dead, and an open page gives its token to whoever has the port
			s.rotate()
		}
		if p := portOf(ls[0]); p != 0 {
			s.id.Port = p
		}
		for _, l := range ls { // within the lock: not beside Close's Wait
			b.wg.Go(func() { b.server.Serve(counted{l}) })
		}
	})
	if err != nil {
		b.log.Error("not listening", "err", err)
		return err
	}
	b.log.Info("listening", "port", b.Status().Port, "families", len(ls))
	if len(ls) == 1 {
		b.log.Info("this machine has no ::1: listening on 127.0.0.1 alone")
	}
	return nil
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		l.Close()
	}
}

// Close sends the tab a close frame, frees the port and waits for all
// goroutines. Calls that were sent fail with [UnknownError].
func (b *Bridge) Close() {
	var slot *session
	b.update(func(s *state) {
		s.closed = true
		b.stop()
		slot = s.slot
	})
	if slot != nil {
		<-slot.over // so that the server does not cut it in its upgrade
	}
	b.server.Close()
	b.wg.Wait()
	b.events.wait()
}

// update is the one place where the state changes. Whoever waits is woken, and
// the owner of the identity is told what changed.
func (b *Bridge) update(f func(*state)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, notebook := b.st.id, b.st.notebook
	f(&b.st)
	if s := &b.st; s.slot != nil && s.slot.ready && s.slot.tab == nil {
		panic("bridge: a ready slot without a tab")
	}
	if on := b.opts.OnIdentity; on != nil && (id != b.st.id || notebook != b.st.notebook) {
		id, notebook := b.st.id, b.st.notebook
		b.events.do(func() { on(id, notebook) })
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// look reads the state; changed is closed when it is out of date.
func (b *Bridge) look(f func(*state)) (changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.st)
	return b.changed
}

// ready is the live tab, nil when there is none. One whose connection is over
// keeps the slot for a moment more.
func (s *state) ready() *Tab {
	if s.slot == nil || !s.slot.ready || s.slot.retired {
		return nil
	}
	select {
	case <-s.slot.tab.Gone():
		return nil
	default:
		return s.slot.tab
	}
}

// Gate is the one line for everything that may run code. It outlives tabs.
func (b *Bridge) Gate() *Gate { return &b.gate }

// Live is the tab that is ready now, nil when there is none. It opens nothing.
func (b *Bridge) Live() *Tab {
	var t *Tab
	b.look(func(s *state) { t = s.ready() })
	return t
}

// events runs callbacks one after another, in order, beside the lock.
type events struct {
	mu      sync.Mutex // guards all below
	queue   []func()
	running bool
	idle    sync.WaitGroup
}

func (e *events) do(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = append(e.queue, f)
	if e.running {
		return
	}
	e.running = true
	e.idle.Go(func() {
		for {
			e.mu.Lock()
			if len(e.queue) == 0 {
				e.running = false
				e.mu.Unlock()
				return
			}
			f := e.queue[0]
			e.queue = slices.Delete(e.queue, 0, 1)
			e.mu.Unlock()
			f()
		}
	})
}

// maxLate is how many callbacks may wait when more are only offered.
const maxLate = 1000

// offer is do for what may be lost when the owner does not keep up.
func (e *events) offer(f func()) {
	e.mu.Lock()
	late := len(e.queue) >= maxLate
	e.mu.Unlock()
	if !late {
		e.do(f)
	}
}

// flush waits for the callbacks that are queued by now.
func (e *events) flush() {
	done := make(chan struct{})
	e.do(func() { close(done) })
	<-done
}

func (e *events) wait() { e.idle.Wait() }

// Identity is what a tab must know now, and the notebook it is for.
func (b *Bridge) Identity() (Identity, Link) {
	var id Identity
	var link Link
	b.look(func(s *state) { id, link = s.id, s.notebook })
	return id, link
}
