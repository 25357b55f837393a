package state

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// Of lines with one message, level and "reason", repeatBurst are written in a repeatWindow and the rest are counted.
// Debug lines are all written: who asks for them wants them.
const (
	repeatBurst  = 20
	repeatWindow = time.Minute
	repeatKeys   = 256 // further ones share a count, so that memory is bounded
)

// limiter counts repeated lines. What is due is written with the next record after the window, or by flush.
type limiter struct {
	out slog.Handler

	mu   sync.Mutex // guards seen
	seen map[string]*repeats
}

type repeats struct {
	since  time.Time
	first  slog.Record
	reason string
	n      int
}

// limitHandler is a handler behind a limiter that is shared with those derived from it.
type limitHandler struct {
	slog.Handler
	l *limiter
}

func (h limitHandler) Handle(ctx context.Context, r slog.Record) error {
	write, due := h.l.note(r)
	for _, d := range due {
		if err := h.l.out.Handle(ctx, d.summary(r.Time)); err != nil {
			return err
		}
	}
	if !write {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h limitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitHandler{h.Handler.WithAttrs(attrs), h.l}
}

func (h limitHandler) WithGroup(name string) slog.Handler {
	return limitHandler{h.Handler.WithGroup(name), h.l}
}

// note counts a record, tells whether to write it, and hands over the counts whose time is up.
func (l *limiter) note(r slog.Record) (write bool, due []*repeats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, s := range l.seen {
		// A clock set back ends the window too.
		if age := r.Time.Sub(s.since); age < 0 || age >= repeatWindow {
			delete(l.seen, key)
			if s.n > repeatBurst {
				due = append(due, s)
			}
		}
	}
	if r.Level < slog.LevelInfo {
		return true, due
	}
	reason := reasonOf(r)
	key := r.Level.String() + "\x00" + r.Message + "\x00" + reason
	if l.seen[key] == nil && len(l.seen) >= repeatKeys {
		key = ""
	}
	s := l.seen[key]
	if s == nil {
		s = &repeats{since: r.Time, first: r.Clone(), reason: reason}
		l.seen[key] = s
	}
	s.n++
	return s.n <= repeatBurst, due
}

// flush writes all counts, due or not.
func (l *limiter) flush() {
	l.mu.Lock()
	seen := l.seen
	l.seen = map[string]*repeats{}
	l.mu.Unlock()
	for _, s := range seen {
		if s.n > repeatBurst {
			l.out.Handle(context.Background(), s.summary(time.Now()))
		}
	}
}

func (s *repeats) summary(at time.Time) slog.Record {
	r := slog.NewRecord(at, s.first.Level, "… "+grouped(s.n-repeatBurst)+" more like this", 0)
	r.AddAttrs(slog.String("line", s.first.Message))
	if s.reason != "" {
		r.AddAttrs(slog.String("reason", s.reason))
	}
	return r
}

func reasonOf(r slog.Record) (reason string) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" {
			reason = a.Value.String()
		}
		return reason == ""
	})
	return reason
}

// grouped writes n with commas: 9,998.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
