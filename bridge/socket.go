package bridge

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"
)

// oneTab is the close reason of a second tab; the page shows it.
const oneTab = "only one notebook can be connected at a time"

// StatusMoved is the close code of a tab whose token was retired (RFC 6455,
// 7.4.2: private use).
const StatusMoved websocket.StatusCode = 4001

// ServeHTTP admits a tab and stays with it until its connection is over.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close") // who is refused may not keep its connection
	var id Identity
	b.look(func(s *state) { id = s.id })
	if r.Method == http.MethodOptions {
		b.preflight(w, r, id)
		return
	}
	if why, ok := admit(r, id.Port, id); !ok {
		b.refuse(why)
		http.Error(w, why.reason, why.status)
		return
	}
	me, rival := b.claim(id)
	if me == nil && rival == nil {
		http.Error(w, "the server is shutting down or its token has just changed", http.StatusServiceUnavailable)
		return
	}
	defer b.wg.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{"mcp"}, InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		b.log.Warn("upgrade failed", "err", err)
		if me != nil {
			b.release(me, "")
		}
		return
	}
	tr := trafficOf(r.Context())
	if me == nil {
		if me = b.takeOver(rival, id); me == nil {
			b.log.Info("second tab turned away")
			hangUp(conn, func() { tr.Close() }, websocket.StatusTryAgainLater, oneTab)
			return
		}
	}
	b.serve(me, conn, tr)
}

// preflight answers Chrome's private network access question. It does not
// replace the user's permission.
func (b *Bridge) preflight(w http.ResponseWriter, r *http.Request, id Identity) {
	if ownHost(r.Host, id.Port) && slices.Contains(colabOrigins, r.Header.Get("Origin")) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		h.Set("Access-Control-Allow-Methods", "GET")
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *Bridge) refuse(why refusal) {
	n := 0
	b.update(func(s *state) {
		s.refused[why]++
		n = s.refused[why]
	})
	if n&(n-1) == 0 { // a flood is logged by its powers of two
		b.log.Warn("connection refused", "status", why.status, "reason", why.reason, "times", n)
	}
}

// claim takes the place, or returns who has it. Neither: too late. Unless too
// late, the caller owes b.wg a Done.
func (b *Bridge) claim(id Identity) (me, rival *session) {
	b.update(func(s *state) {
		switch {
		case s.closed || s.id != id:
			return
		case s.slot == nil:
			me = &session{phase: "upgrade", opening: s.opening, over: make(chan struct{})}
			s.slot = me
		default:
			rival = s.slot
		}
		b.wg.Add(1)
	})
	return me, rival
}

// takeOver gives the place to a second tab if the first turns out to be dead.
func (b *Bridge) takeOver(rival *session, id Identity) (me *session) {
	var tab *Tab
	b.look(func(*state) { tab = rival.tab })
	if tab == nil || tab.alive(probeTime) {
		return nil
	}
	b.log.Warn("first tab is dead, the second takes its place")
	tab.peer.end(errDead, tab.peer.cut)
	select {
	case <-rival.over:
	case <-b.root.Done():
		return nil
	}
	if me, rival = b.claim(id); me != nil || rival != nil {
		b.wg.Done() // the caller has its own
	}
	return me
}

// serve makes the socket a Tab and follows it to its end.
func (b *Bridge) serve(me *session, conn *websocket.Conn, tr *traffic) {
	t := &Tab{traffic: tr, log: b.log, since: time.Now(), refresh: make(chan struct{}, 1), onLog: b.onLog}
	t.peer = newPeer(conn, func() { tr.Close() }, b.log, t.notified, b.opts.Trace)
	why := ""
	defer func() {
		if b.root.Err() != nil {
			t.goAway()
		}
		t.peer.close(websocket.StatusNormalClosure, "")
		b.release(me, why)
	}()
	closed, retired := false, false
	b.update(func(s *state) { me.tab, closed, retired = t, s.closed, me.retired })
	if retired {
		t.peer.close(StatusMoved, "the token was replaced")
	}
	if closed || retired {
		return
	}
	b.log.Info("tab connected")
	ctx, stop := context.WithTimeout(b.root, handshakeTimeout)
	err := t.handshake(ctx, b.opts.Version, func(phase string) {
		b.update(func(*state) { me.phase = phase })
	})
	stop()
	if err != nil {
		b.log.Warn("tab did not become ready", "err", err)
		return
	}
	b.update(func(s *state) {
		me.ready, me.phase = true, ""
		s.opening, s.backoff, s.drop = nil, backoff{}, ""
		clear(s.refused)
	})
	b.flood.forget()
	b.log.Info("tab ready", "tools", len(t.Tools()), "protocol", t.version, "server", string(t.server))
	b.announce()
	if b.opts.OnReady != nil {
		b.wg.Go(func() { b.opts.OnReady(t) })
	}
	b.wg.Go(t.watch)
	b.wg.Go(func() { t.keepTools(b.announce) })
	select {
	case <-t.Gone():
	case <-b.root.Done():
		t.goAway()
	}
	why = t.reason().Error()
	b.log.Info("tab gone", "reason", why, "after", time.Since(t.since).Round(time.Millisecond))
	b.announce()
}

// goAway tells the page that this server ends (RFC 6455, 7.4.1).
func (t *Tab) goAway() {
	t.peer.close(websocket.StatusGoingAway, "the server is shutting down")
}

// release frees the place. why is how a ready tab ended.
func (b *Bridge) release(me *session, why string) {
	b.update(func(s *state) {
		if s.slot == me {
			s.slot = nil
		}
		if why != "" {
			s.drop = why
		} else if me.opening != nil && me.tab != nil {
			me.opening.spent = true // its page will not dial again by itself
			if o := me.opening; o == s.opening && o.browse && !o.failed {
				o.failed = true
				s.backoff.failed(time.Now())
			}
		}
	})
	close(me.over)
}

// announce tells the owner what the live tab offers when the word gets
// through, so that the last word is right whichever tab it was about.
func (b *Bridge) announce() {
	if b.opts.OnTools == nil {
		return
	}
	b.events.do(func() {
		var tools []Tool
		if t := b.Live(); t != nil {
			tools = t.Tools()
		}
		b.opts.OnTools(tools)
	})
}

func (b *Bridge) onLog(params json.RawMessage) {
	if b.opts.OnLog != nil {
		b.events.offer(func() { b.opts.OnLog(params) })
	}
}
