package transfer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"time"

	"colab-mcp/notebook"
	"colab-mcp/state"
)

//go:embed agent.py
var agentPy string

var agent = notebook.NewModule("transfer", agentPy)

// Files moves files. Its methods may be called concurrently.
type Files struct {
	Local *notebook.Local
	Max   int64            // the largest file, bytes; 0 = 2 GiB
	Now   func() time.Time // nil = time.Now
	Begun *state.Blobs     // how far uploads are that have not ended, see BegunLimits; nil = none is remembered
}

// Options of one transfer.
type Options struct {
	LocalPath, RemotePath string
	Overwrite             bool
	Progress              func(Progress) // called after every chunk, from the caller's goroutine; nil = none
}

// Result is what an agent is told.
type Result struct {
	LocalPath  string  `json:"local_path"`
	RemotePath string  `json:"remote_path"`
	Bytes      int64   `json:"bytes"`
	SHA256     string  `json:"sha256"`
	Chunks     int     `json:"chunks"`
	Seconds    float64 `json:"seconds"`
	BytesPerS  float64 `json:"bytes_per_s"`             // of the bytes that this call sent
	Resumed    int64   `json:"resumed_bytes,omitempty"` // of an earlier call
	Identical  bool    `json:"identical,omitempty"`     // the same file was there, nothing was sent
	Note       string  `json:"note,omitempty"`
}

func (f *Files) now() func() time.Time {
	if f.Now != nil {
		return f.Now
	}
	return time.Now
}

func (f *Files) max() int64 {
	if f.Max > 0 {
		return f.Max
	}
	return 2 << 30
}

// session is one transfer's dealings with the agent in the kernel.
type session struct {
	ch    Channel
	id    string
	verb  string
	name  string // of the file, for titles
	path  string // remote, as asked for
	plan  plan
	meter *meter

	confirmed, total int64
	chunks           int
}

func newSession(ch Channel, verb, name, path string) *session {
	return &session{ch: ch, id: rand.Text(), verb: verb, name: name, path: path}
}

func (s *session) title() string { return title(s.verb, s.name, s.confirmed, s.total) }

// brokenError marks what the channel itself failed with.
type brokenError struct{ error }

func (e brokenError) Unwrap() error { return e.error }

// do calls the agent in a cell of its own; what got lost on the way is tried again, the functions can bear it.
func (s *session) do(ctx context.Context, fn string, args, result any) error {
	var p plan
	for {
		err := agent.Do(ctx, func(ctx context.Context, code string) ([]notebook.Output, error) {
			if err := s.ch.Set(ctx, 0, code); err != nil {
				return nil, brokenError{err}
			}
			outs, _, err := s.ch.Run(ctx, 0)
			if err != nil {
				return nil, brokenError{err}
			}
			return outs, nil
		}, s.title(), fn, args, result)
		if !retryable(err) && !errors.Is(err, notebook.ErrModuleMissing) { // missing after installing: that was damaged
			return s.remote(err)
		}
		if !p.lost() {
			return &InterruptedError{s.confirmed, s.total, errors.Join(ErrUnreliable, err)}
		}
		if err := wait(ctx, p.pause()); err != nil {
			return err
		}
	}
}

// remote gives errors of Python and of the channel their form.
func (s *session) remote(err error) error {
	var py *notebook.PythonError
	var broken brokenError
	switch {
	case errors.As(err, &py):
		return &RemoteError{s.path, py}
	case errors.As(err, &broken):
		return &InterruptedError{s.confirmed, s.total, broken.error}
	}
	return err
}

// lost reports that the kernel has forgotten the transfer: it was restarted.
func lost(err error) bool {
	var py *notebook.PythonError
	return errors.Is(err, notebook.ErrModuleMissing) || errors.As(err, &py) && py.Code == "lost"
}

// interrupted reports that the channel broke, and left something to go on with. The caller's own end does not break a channel.
func interrupted(ctx context.Context, err error) bool {
	var e *InterruptedError
	return errors.As(err, &e) && ctx.Err() == nil
}

// abort ends the transfer in the kernel, unless the channel is broken: then what is there is for a repeat.
func (s *session) abort(ctx context.Context, err error) {
	if interrupted(ctx, err) {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer stop()
	s.do(ctx, "abort", idArgs{s.id}, nil) // the error that brought us here is the one to tell
}

type idArgs struct {
	ID string `json:"id"`
}

func (s *session) result(r Result, sent int64) Result {
	r.Chunks = s.chunks
	took := s.meter.now().Sub(s.meter.began)
	r.Seconds = notebook.Seconds(took)
	if took > 0 {
		r.BytesPerS = math.Round(float64(sent) / took.Seconds())
	}
	return r
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hashOf hashes n bytes of r from its start.
func hashOf(ctx context.Context, r io.ReaderAt, n int64) (hash.Hash, error) {
	h := sha256.New()
	block := make([]byte, 1<<20)
	for off := int64(0); off < n; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := r.ReadAt(block[:min(int64(len(block)), n-off)], off)
		h.Write(block[:m])
		off += int64(m)
		if err == io.EOF && off < n {
			return nil, ErrChanged
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
	}
	return h, nil
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// stagingKey names a staging file by what it will be and what it is made of.
func stagingKey(target, source string) string {
	key := sha256.Sum256([]byte(target + "\x00" + source))
	return hex.EncodeToString(key[:8])
}

// reply decodes the reply of a chunk's call.
func reply(outs []notebook.Output, marker string, result any) error {
	value, err := notebook.ParseReply(outs, marker)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(value, result); err != nil {
		return fmt.Errorf("%w: %v", notebook.ErrNoReply, err)
	}
	return nil
}
