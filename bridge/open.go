package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// BusyError says that something is running that a switch of notebooks would
// lose.
type BusyError struct {
	Op    string
	Since time.Time
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s is running (for %s)", e.Op, time.Since(e.Since).Round(time.Second))
}

// Opened is how an opening stands.
type Opened struct {
	Ready    bool
	Phase    string // state, as in Status
	Notebook string
	Waited   time.Duration
	Note     string
	Causes   []string // why it may be waiting, the likeliest first
	Manual   string   // the link with its token, to be opened by hand; only while no tab is connected
}

// opening is a tab that was asked for and is not ready yet.
type opening struct {
	link   Link
	began  time.Time
	browse bool   // the browser was asked
	launch error  // the browser could not be started
	spent  bool   // its page came and went: it must be opened again
	failed bool   // somebody waited for it in vain, or the browser's tab for it left
	remark string // Options.Remark's, as of the newest wait
}

// Ask is what a caller of Open wants.
type Ask struct {
	Link  *Link // nil: whatever notebook is connected or was last opened here, else a scratch one
	Force bool  // switch although something runs; open anew although a tab is connected or waiting
	// Tell is called every few seconds of waiting, and may be nil.
	Tell func(waited time.Duration, what string)
}

// Open makes sure that the asked notebook is connected: it opens the browser
// and waits for the user to accept, for at most UITimeout. Not being accepted
// in time is no error: the opening stays, a repeat waits on and opens no
// second tab. Callers share one opening.
//
// Errors: *[BusyError], *[PortError], the context's.
func (b *Bridge) Open(ctx context.Context, ask Ask) (Opened, error) {
	if err := b.Start(); err != nil {
		return Opened{}, err
	}
	began := time.Now()
	link, fresh, err := b.request(ask)
	if err != nil {
		return Opened{}, err
	}
	return b.await(ctx, link, fresh, began, ask.Tell)
}

// request begins an opening unless one is there or none is needed, and returns
// the link that is waited for and whether it is a fresh opening.
func (b *Bridge) request(ask Ask) (link Link, fresh bool, err error) {
	var retired *session
	var begun *opening
	why := "another notebook was opened"
	b.update(func(s *state) {
		if err = b.root.Err(); err != nil { // Close waits for nothing that begins now
			return
		}
		link = s.target(ask.Link)
		connected := s.ready() != nil
		switch {
		case connected && !ask.Force && (ask.Link == nil || s.notebook.Serves(link)):
			return
		case s.opening != nil && !s.opening.spent && s.opening.link.Serves(link) && !ask.Force:
			link = s.opening.link
			return
		}
		if op, since, busy := b.busy(); busy && connected && !ask.Force {
			err = &BusyError{op, since}
			return
		}
		if link == (Link{}) { // what the connected tab shows is not known
			link = ScratchLink()
		}
		if connected || (s.notebook != (Link{}) || s.slot != nil) && !s.notebook.Serves(link) { // the old page must not come back
			if s.notebook.Serves(link) {
				why = "the notebook was opened anew"
			}
			retired = s.rotate()
		}
		fresh = s.begin(link) || ask.Force
		begun = s.opening
	})
	if retired != nil {
		b.retire(retired, why)
	}
	if fresh {
		b.launch(begun)
	}
	return link, fresh, err
}

// busy names what a switch of notebooks would lose.
func (b *Bridge) busy() (op string, since time.Time, busy bool) {
	if b.opts.Busy != nil {
		if op, since, busy = b.opts.Busy(); busy {
			return op, since, busy
		}
	}
	return b.gate.Holder()
}

// target is the notebook that is meant.
func (s *state) target(asked *Link) Link {
	switch {
	case asked != nil:
		return *asked
	case s.opening != nil:
		return s.opening.link
	case s.ready() != nil, s.ours:
		return s.notebook
	}
	return ScratchLink()
}

// begin makes link what is waited for, and reports whether the browser is
// needed: a tab that is in its handshake already, reloaded by the user, will
// do.
func (s *state) begin(link Link) (launch bool) {
	s.opening = &opening{link: link, began: time.Now()}
	s.notebook, s.ours, s.drop = link, true, ""
	clear(s.refused)
	if !s.knocking() {
		return true
	}
	s.slot.opening = s.opening
	return false
}

// knocking reports that a tab is in its handshake.
func (s *state) knocking() bool { return s.slot != nil && !s.slot.ready && !s.slot.retired }

// rotate replaces the token and returns who came with the old one, if anybody.
func (s *state) rotate() *session {
	s.id = NewIdentity(s.id.Port)
	if s.slot != nil {
		s.slot.retired = true
	}
	return s.slot
}

// retire closes a tab whose token is no longer good and waits for its place.
func (b *Bridge) retire(slot *session, why string) {
	var tab *Tab
	b.look(func(*state) { tab = slot.tab })
	if tab != nil {
		tab.peer.close(StatusMoved, why)
	}
	select {
	case <-slot.over:
	case <-b.root.Done():
	}
}

// launch starts the browser for an opening, unless another call has replaced it
// since, beside its callers: the wait goes on whether or not it can be started.
func (b *Bridge) launch(o *opening) {
	b.update(func(s *state) {
		if s.opening != o || s.closed {
			return
		}
		id := s.id
		o.browse = true
		b.wg.Go(func() { // within the lock: not beside Close's Wait
			b.log.Info("opening", "notebook", o.link.URL())
			b.events.flush() // a token is kept before anybody may come with it
			err := errors.New("this server was started without a browser")
			if b.opts.Browse != nil {
				err = b.opts.Browse(b.root, o.link.Open(id.Token, id.Port))
			}
			if err != nil {
				b.log.Warn("browser not started", "err", err)
				b.update(func(*state) { o.launch = err })
			}
		})
	})
}

// await waits until a tab is ready. Who began the opening does not wait for a
// browser that cannot be started; who joins it later waits for the user's hand.
func (b *Bridge) await(ctx context.Context, link Link, fresh bool, began time.Time, tell func(time.Duration, string)) (Opened, error) {
	timeout := time.NewTimer(b.opts.UITimeout)
	defer timeout.Stop()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	remark := b.opts.Remark()
	b.update(func(s *state) {
		if s.opening != nil {
			s.opening.remark = remark
		}
	})
	expired := false
	for {
		var got Opened
		var failed bool
		changed := b.look(func(s *state) {
			got = b.opened(s, link)
			failed = s.opening != nil && (fresh && s.opening.launch != nil || s.opening.spent)
		})
		got.Waited = time.Since(began)
		if got.Ready || failed || expired {
			return got, nil
		}
		if b.root.Err() != nil {
			return got, b.root.Err()
		}
		select {
		case <-changed:
		case <-b.root.Done():
		case <-ctx.Done():
			return got, ctx.Err()
		case <-timeout.C:
			first := false
			b.update(func(s *state) {
				if s.opening != nil && !s.opening.failed { // once for all who wait for it
					s.opening.failed, first = true, true
					s.backoff.failed(time.Now())
				}
			})
			if first {
				b.log.Warn("no tab came in time", "after", got.Waited.Round(time.Millisecond), "phase", got.Phase, "likely", got.Causes[0])
			}
			expired = true // and look once more
		case <-tick.C:
			if tell != nil {
				tell(got.Waited, got.Causes[0])
			}
		}
	}
}

// opened describes the opening of link as it stands, or the one that another
// caller put in its place. b.mu is held.
func (b *Bridge) opened(s *state, link Link) Opened {
	o := Opened{Phase: s.phase(), Note: link.Note()}
	if !s.notebook.Serves(link) {
		o.Note = "another call has asked for this notebook since, in place of " + link.URL()
	}
	if s.notebook != (Link{}) {
		o.Notebook = s.notebook.URL()
	}
	if s.ready() != nil {
		o.Ready = true
		return o
	}
	o.Causes = b.causes(s)
	o.Manual = s.notebook.Open(s.id.Token, s.id.Port)
	return o
}
