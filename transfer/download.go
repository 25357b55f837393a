package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"colab-mcp/notebook"
)

// Download fetches a file of the runtime. LocalPath "" is the file's name in the working directory; in a directory it keeps its name.
func (f *Files) Download(ctx context.Context, ch Channel, o Options) (Result, error) {
	name := path.Base(strings.TrimRight(o.RemotePath, "/"))
	if o.LocalPath == "" {
		o.LocalPath = name
	}
	if runtime.GOOS == "windows" && !filepath.IsLocal(name) || name == "." || name == ".." || name == "/" {
		return Result{}, fmt.Errorf("%q: %w", o.RemotePath, notebook.ErrIsDirectory)
	}
	local, dir, err := f.Local.Resolve(o.LocalPath)
	if err != nil {
		return Result{}, err
	}
	if dir {
		local = filepath.Join(local, name)
	}
	d := &download{session: newSession(ch, "download", name, o.RemotePath), local: local, overwrite: o.Overwrite}
	d.meter = newMeter(o.Progress, f.now(), 0)
	result, err := d.run(ctx, f)
	d.abort(ctx, err) // closes the file there in any case
	if d.stage != nil {
		d.end(ctx, err)
	}
	if err != nil && ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return result, err
}

type download struct {
	*session
	local     string // target
	overwrite bool
	source    source
	stage     *notebook.Stage
	hasher    hash.Hash // of what is in the staging file
	stale     bool      // what an earlier call left is of another file
}

type source struct {
	Path       string      `json:"path"`
	Size       int64       `json:"size"`
	SHA256     string      `json:"sha256"`
	Packed     bool        `json:"packed"`
	Executable fs.FileMode `json:"executable"`
}

func (d *download) run(ctx context.Context, f *Files) (Result, error) {
	if err := d.begin(ctx, f.max()); err != nil {
		return Result{}, err
	}
	d.total = d.source.Size
	d.meter.total = d.total
	r := Result{LocalPath: d.local, RemotePath: d.source.Path, Bytes: d.total, SHA256: d.source.SHA256}
	same, err := d.there(ctx, f.Local)
	if err != nil {
		return Result{}, err
	}
	if same {
		r.Identical, r.Note = true, "the same file is there already, nothing was sent"
		return d.result(r, 0), nil
	}
	if d.stage, err = f.Local.Stage(d.local, stagingKey(d.source.Path, d.source.SHA256), d.overwrite); err != nil {
		return Result{}, err
	}
	r.LocalPath = d.stage.Path
	if err := d.resume(ctx); err != nil {
		return Result{}, err
	}
	r.Resumed = d.confirmed
	d.meter.resumed = d.confirmed
	if d.stale {
		r.Note = "what was fetched before is not of this file: the download started over"
	}
	first := d.source
	for restarts := 0; ; restarts++ {
		err = d.fetch(ctx)
		if err == nil || !lost(err) || restarts == 3 {
			break
		}
		// The kernel was restarted. What we have is good if the file is still the same.
		if err := d.begin(ctx, f.max()); err != nil {
			return Result{}, err
		}
		if d.source.SHA256 != first.SHA256 {
			return Result{}, fmt.Errorf("in the runtime: %q: %w", d.path, ErrChanged)
		}
		r.Note = "the kernel was restarted meanwhile"
	}
	if err != nil {
		return Result{}, err
	}
	if sum(d.hasher) != d.source.SHA256 {
		return Result{}, fmt.Errorf("%q: %w", d.local, ErrChecksum)
	}
	if err := d.commit(); err != nil {
		return Result{}, err
	}
	return d.result(r, d.total-r.Resumed), nil
}

func (d *download) begin(ctx context.Context, max int64) error {
	err := d.do(ctx, "download", map[string]any{"id": d.id, "path": d.path, "max_size": max}, &d.source)
	var py *notebook.PythonError
	if errors.As(err, &py) && py.Code == "too_large" {
		tooLarge := &TooLargeError{Max: max}
		fmt.Sscan(py.Value, &tooLarge.Size)
		return tooLarge
	}
	return err
}

// there tells whether the target is the same file already.
func (d *download) there(ctx context.Context, l *notebook.Local) (bool, error) {
	file, _, err := l.Open(d.local)
	if err != nil {
		return false, nil // Stage says what is wrong with it
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() != d.total {
		return false, nil
	}
	h, err := hashOf(ctx, file, d.total)
	if err != nil {
		return false, ctx.Err()
	}
	return sum(h) == d.source.SHA256, nil
}

// resume takes over what an earlier call left, if it is of this file.
func (d *download) resume(ctx context.Context) error {
	d.hasher, d.stale = sha256.New(), d.stage.Stale
	info, err := d.stage.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if have := info.Size(); have <= d.total {
		h, err := hashOf(ctx, d.stage, have)
		if err != nil {
			return err
		}
		var prefix struct {
			SHA256 string `json:"sha256"`
		}
		if err := d.do(ctx, "prefix", map[string]any{"id": d.id, "size": have}, &prefix); err != nil {
			return err
		}
		if prefix.SHA256 == sum(h) {
			d.hasher, d.confirmed = h, have
			_, err := d.stage.Seek(have, io.SeekStart)
			return err
		}
	}
	d.stale = true
	return d.stage.Truncate(0)
}

// fetch gets the chunks one after the other. While one runs, the one before is verified and written and the next is prepared in the
// other cell.
func (d *download) fetch(ctx context.Context) error {
	cell := 0
	next := d.ask(ctx, cell, d.confirmed, d.plan.next())
	var last answer // came, but is not written yet
	for d.confirmed < d.total {
		cur := next
		if cur.err != nil {
			return d.remote(cur.err)
		}
		side := make(chan error, 1)
		go func(cell int, off int64, size int) {
			next = d.ask(ctx, cell, off, size)
			side <- d.write(last)
		}(1-cell, cur.off+int64(cur.n), d.plan.next())
		var outs []notebook.Output
		var runErr error
		var came answer
		if cur.n > 0 {
			outs, came.took, runErr = d.ch.Run(ctx, cell)
		}
		err := <-side
		if err == nil && last.n > 0 {
			d.plan.came(last.n, last.took)
			d.confirmed += int64(last.n)
			d.meter.reached(d.confirmed)
		}
		if runErr != nil {
			return d.remote(brokenError{runErr})
		}
		cell = 1 - cell
		came.chunk, came.outs = cur, outs
		last = came
		if err == nil {
			continue
		}
		last = answer{} // it is behind the one that failed
		switch {
		case !retryable(err):
			return d.remote(err)
		case !d.plan.lost():
			return &InterruptedError{d.confirmed, d.total, errors.Join(ErrUnreliable, err)}
		}
		if err := wait(ctx, d.plan.pause()); err != nil {
			return err
		}
		next = d.ask(ctx, cell, d.confirmed, d.plan.next())
	}
	return nil
}

// answer is the outputs of a chunk's cell.
type answer struct {
	chunk
	outs []notebook.Output
	took time.Duration
}

// ask writes the call that gets size bytes at off into the cell.
func (d *download) ask(ctx context.Context, cell int, off int64, size int) chunk {
	n := int(min(int64(size), d.total-off))
	if n <= 0 {
		return chunk{off: off}
	}
	code, marker, err := agent.Call(title(d.verb, d.name, off, d.total), "get", struct {
		ID     string `json:"id"`
		Offset int64  `json:"offset"`
		Size   int    `json:"size"`
		Packed bool   `json:"packed"`
	}{d.id, off, n, d.source.Packed})
	if err != nil {
		return chunk{err: err}
	}
	if err := d.ch.Set(ctx, cell, code); err != nil {
		return chunk{err: brokenError{err}}
	}
	return chunk{off: off, n: n, marker: marker}
}

// write verifies a chunk and appends it to the staging file.
func (d *download) write(a answer) error {
	if a.n == 0 {
		return nil
	}
	d.chunks++
	value, data, err := notebook.ParseReplyData(a.outs, a.marker)
	if err != nil {
		return err
	}
	var got struct {
		Size   int    `json:"size"`
		SHA256 string `json:"sha256"`
	}
	if err := json.Unmarshal(value, &got); err != nil || got.Size != a.n {
		return fmt.Errorf("%w: a chunk of %d bytes instead of %d", notebook.ErrNoReply, got.Size, a.n)
	}
	if d.source.Packed {
		if data, err = unpack(data, a.n); err != nil {
			return fmt.Errorf("%w: a damaged chunk: %v", notebook.ErrNoReply, err)
		}
	}
	if hash := sha256.Sum256(data); len(data) != a.n || hex.EncodeToString(hash[:]) != got.SHA256 {
		return fmt.Errorf("%w: a damaged chunk", notebook.ErrNoReply)
	}
	if _, err := d.stage.Write(data); err != nil {
		return err
	}
	d.hasher.Write(data)
	return nil
}

func (d *download) commit() error {
	if d.source.Executable != 0 {
		info, err := d.stage.Stat()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm()
		if err := d.stage.Chmod(mode | d.source.Executable&(mode>>2)); err != nil {
			return fmt.Errorf("%q: %w", d.local, err)
		}
	}
	return d.stage.Commit()
}

// end leaves the staging file only for a repeat after the channel broke.
func (d *download) end(ctx context.Context, err error) {
	if interrupted(ctx, err) {
		d.stage.Keep()
		return
	}
	d.stage.Discard()
}
