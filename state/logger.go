package state

import (
	"io"
	"log/slog"
)

// NewLogger logs to w at level and above: one line of text a record, times in UTC, secrets redacted in whatever part
// of it they stand, repeated lines counted instead of written. r may get more secrets later. flush writes the counts
// that are due; call it before w is closed.
//
// Redaction is on the finished line, whatever kinds of values are in it.
func NewLogger(w io.Writer, level slog.Leveler, r *Redactor) (_ *slog.Logger, flush func()) {
	text := slog.NewTextHandler(r.Writer(w), &slog.HandlerOptions{Level: level, ReplaceAttr: utc})
	l := &limiter{out: text, seen: map[string]*repeats{}}
	return slog.New(limitHandler{text, l}), l.flush
}

// utc gives times a form that sorts as text, which [Newest] needs.
func utc(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		a.Value = slog.StringValue(a.Value.Time().UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	return a
}
