package bridge

import (
	"context"
	"time"
)

// NoTabError says that a tool needs a tab and none is connected.
type NoTabError struct {
	Previous string  // notebook of an earlier process, "" if unknown
	Dropped  string  // how the last tab ended, "" if there was none
	Opening  *Opened // the opening that is still waiting for the user, if any
}

func (e *NoTabError) Error() string {
	text := "no Colab tab is connected"
	switch {
	case e.Opening != nil:
		return text + ": one was opened and waits for its user. " + e.Opening.Causes[0]
	case e.Dropped != "":
		text += ": " + e.Dropped
	}
	if e.Previous != "" {
		text += ". The notebook of the last session was " + e.Previous
	}
	return text
}

// backoff keeps a user who is away from finding twenty tabs.
type backoff struct {
	wait  time.Duration
	until time.Time
}

const (
	firstBackoff = time.Minute
	lastBackoff  = 15 * time.Minute
)

func (f *backoff) failed(now time.Time) {
	f.wait = min(max(2*f.wait, firstBackoff), lastBackoff)
	f.until = now.Add(f.wait)
}

// Tab returns the live tab for a tool that needs one. A dropped tab that this
// process opened is re-opened and waited for; callers share that opening, and
// after one that failed they are told so at once for a while. A notebook of an
// earlier process is only named.
//
// The error is a *[NoTabError], a *[PortError] or the context's.
func (b *Bridge) Tab(ctx context.Context, tell func(time.Duration, string)) (*Tab, error) {
	if t := b.Live(); t != nil {
		return t, nil
	}
	if err := b.Start(); err != nil {
		return nil, err
	}
	var none *NoTabError
	var begun *opening
	b.update(func(s *state) {
		switch {
		case s.ready() != nil:
		case !s.ours || b.opts.NoReopen && s.opening == nil:
			none = b.noTab(s)
		case time.Now().Before(s.backoff.until) && !s.knocking():
			none = b.noTab(s)
		case s.opening == nil || s.opening.spent || s.opening.failed:
			if b.opts.NoReopen {
				none = b.noTab(s)
				return
			}
			if s.begin(s.notebook) {
				begun = s.opening
			}
		}
	})
	if none != nil {
		return nil, none
	}
	again := begun != nil
	if again {
		b.launch(begun)
	}
	var link Link
	b.look(func(s *state) { link = s.notebook })
	if _, err := b.await(ctx, link, again, time.Now(), tell); err != nil {
		return nil, err
	}
	if t := b.Live(); t != nil {
		return t, nil
	}
	b.look(func(s *state) { none = b.noTab(s) })
	return nil, none
}

// Missing is the error of a tool that needs a tab and opens none, nil while one
// is ready.
func (b *Bridge) Missing() error {
	var err *NoTabError
	b.look(func(s *state) {
		if s.ready() == nil {
			err = b.noTab(s)
		}
	})
	if err == nil {
		return nil
	}
	return err
}

func (b *Bridge) noTab(s *state) *NoTabError {
	e := &NoTabError{Dropped: s.drop}
	if s.opening != nil {
		o := b.opened(s, s.opening.link)
		e.Opening = &o
	}
	if !s.ours && b.opts.Previous != (Link{}) {
		e.Previous = b.opts.Previous.URL()
	}
	return e
}
