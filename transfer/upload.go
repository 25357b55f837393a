package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"colab-mcp/notebook"
)

// Upload sends a local file to the runtime. RemotePath "" is the file's name; in a directory it keeps its name.
func (f *Files) Upload(ctx context.Context, ch Channel, o Options) (Result, error) {
	file, path, err := f.Local.Open(o.LocalPath)
	if err != nil {
		return Result{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Result{}, err
	}
	if info.Size() > f.max() {
		return Result{}, &TooLargeError{info.Size(), f.max()}
	}
	if o.RemotePath == "" {
		o.RemotePath = filepath.Base(path)
	}
	u := &upload{session: newSession(ch, "upload", filepath.Base(path), o.RemotePath), file: file, info: info, overwrite: o.Overwrite}
	u.total = info.Size()
	u.meter = newMeter(o.Progress, f.now(), u.total)
	u.meter.kept = func(bytes int64) { f.goesOn(u.key, bytes) }
	result, err := u.run(ctx, f)
	if !interrupted(ctx, err) {
		f.over(u.key)
	}
	if err != nil {
		u.abort(ctx, err)
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{}, err
	}
	result.LocalPath = path
	return result, nil
}

type upload struct {
	*session
	file      *os.File
	info      fs.FileInfo // at the start
	sha256    string
	key       string
	overwrite bool
	packed    bool
	packer    packer
	buf       []byte // of the chunk that is being prepared: one at a time
}

func (u *upload) run(ctx context.Context, f *Files) (Result, error) {
	h, err := hashOf(ctx, u.file, u.total)
	if err != nil {
		return Result{}, u.local(err)
	}
	u.sha256 = sum(h)
	u.key = stagingKey(u.path, u.sha256)
	if u.packed, err = packs(u.file, u.total); err != nil {
		return Result{}, u.local(err)
	}
	r := Result{Bytes: u.total, SHA256: u.sha256}
	earlier := f.begun(u.key)
	for restarts := 0; ; restarts++ {
		begun, err := u.begin(ctx)
		if err != nil {
			return Result{}, err
		}
		r.RemotePath = begun.Path
		if begun.Identical && restarts > 0 {
			return u.result(r, u.total-r.Resumed), nil // it was finished and the reply lost
		}
		if begun.Identical {
			r.Identical, r.Note = true, "the same file is there already, nothing was sent"
			return u.result(r, 0), nil
		}
		if u.confirmed < earlier {
			r.Note = fmt.Sprintf("the runtime has lost %d bytes that were sent before: the upload started over at byte %d", earlier-u.confirmed, u.confirmed)
		}
		if restarts == 0 {
			r.Resumed = u.confirmed
			u.meter.resumed = u.confirmed
		}
		err = u.send(ctx)
		if err == nil {
			err = u.do(ctx, "finish", idArgs{u.id}, nil)
		}
		if err == nil {
			return u.result(r, u.total-r.Resumed), nil
		}
		if !lost(err) || restarts == 3 {
			return Result{}, u.cause(ctx, err)
		}
		earlier = max(earlier, u.confirmed) // a restarted kernel still has the staging file, a new runtime has not
	}
}

type begun struct {
	Path      string `json:"path"`
	Identical bool   `json:"identical"`
	Have      int64  `json:"have"`
	Prefix    string `json:"prefix"`
}

// begin opens the staging file and finds out how much of this file is in it.
func (u *upload) begin(ctx context.Context) (begun, error) {
	var b begun
	err := u.do(ctx, "upload", map[string]any{
		"id": u.id, "path": u.path, "name": u.name, "size": u.total, "sha256": u.sha256,
		"key": u.key, "overwrite": u.overwrite, "executable": u.info.Mode().Perm() & 0o111,
	}, &b)
	if err != nil || b.Identical {
		return b, err
	}
	u.confirmed = 0
	if b.Have == 0 {
		return b, nil
	}
	if b.Have <= u.total {
		h, err := hashOf(ctx, u.file, b.Have)
		if err != nil {
			return b, u.local(err)
		}
		if sum(h) == b.Prefix {
			u.confirmed = b.Have
			return b, nil
		}
	}
	return b, u.do(ctx, "restart", idArgs{u.id}, nil)
}

// chunk is a cell ready to run.
type chunk struct {
	off          int64
	n            int
	code, marker string
	err          error
}

// send puts the chunks through, one after the other; while one runs the next is prepared in the other cell.
func (u *upload) send(ctx context.Context) error {
	cell := 0
	next := u.prepare(ctx, cell, u.confirmed, u.plan.next())
	for u.confirmed < u.total {
		cur := next
		if cur.err != nil {
			return u.remote(cur.err)
		}
		prepared := make(chan chunk, 1)
		go func(cell int, off int64, size int) { prepared <- u.prepare(ctx, cell, off, size) }(1-cell, cur.off+int64(cur.n), u.plan.next())
		outs, took, err := u.ch.Run(ctx, cell)
		next = <-prepared
		if err != nil {
			return u.remote(brokenError{err})
		}
		have, err := u.confirm(outs, cur)
		switch {
		case err == nil:
			u.plan.came(cur.n, took)
		case !retryable(err):
			return u.remote(err)
		case !u.plan.lost():
			return &InterruptedError{u.confirmed, u.total, errors.Join(ErrUnreliable, err)}
		default:
			if err := wait(ctx, u.plan.pause()); err != nil {
				return err
			}
		}
		if have > u.confirmed {
			u.confirmed = have
			u.meter.reached(have)
		}
		cell = 1 - cell
		if u.confirmed < u.total && next.err == nil && next.off != u.confirmed {
			next = u.prepare(ctx, cell, u.confirmed, u.plan.next())
		}
	}
	return nil
}

// retryable failures are of one chunk on its way; another try may get through.
func retryable(err error) bool {
	var py *notebook.PythonError
	return errors.Is(err, notebook.ErrNoReply) || errors.As(err, &py) && py.Code == "damaged"
}

// confirm reads from a chunk's outputs how much the far side has.
func (u *upload) confirm(outs []notebook.Output, c chunk) (int64, error) {
	u.chunks++
	var put struct {
		Have int64 `json:"have"`
	}
	if err := reply(outs, c.marker, &put); err != nil {
		return 0, err
	}
	if put.Have < u.confirmed || put.Have > u.total {
		return 0, fmt.Errorf("%w: the runtime has %d bytes after %d were confirmed", ErrChecksum, put.Have, u.confirmed)
	}
	return put.Have, nil
}

// prepare reads size bytes at off and writes the call that sends them into the cell. Behind the end there is nothing to do.
func (u *upload) prepare(ctx context.Context, cell int, off int64, size int) chunk {
	n := int(min(int64(size), u.total-off))
	if n <= 0 {
		return chunk{off: off}
	}
	u.buf = slices.Grow(u.buf[:0], n)
	data := u.buf[:n]
	if _, err := u.file.ReadAt(data, off); err != nil && err != io.EOF {
		return chunk{err: u.local(err)}
	}
	if err := u.unchanged(); err != nil {
		return chunk{err: err}
	}
	hash := sha256.Sum256(data)
	if u.packed {
		data = u.packer.pack(data)
	}
	code, marker, err := agent.CallData(title(u.verb, u.name, off, u.total), "put", struct {
		ID     string `json:"id"`
		Offset int64  `json:"offset"`
		Size   int    `json:"size"`
		SHA256 string `json:"sha256"`
		Packed bool   `json:"packed"`
	}{u.id, off, n, hex.EncodeToString(hash[:]), u.packed}, data)
	if err != nil {
		return chunk{err: err}
	}
	if err := u.ch.Set(ctx, cell, code); err != nil {
		return chunk{err: brokenError{err}}
	}
	return chunk{off: off, n: n, code: code, marker: marker}
}

func (u *upload) unchanged() error {
	info, err := u.file.Stat()
	if err != nil {
		return u.local(err)
	}
	if info.Size() != u.info.Size() || !info.ModTime().Equal(u.info.ModTime()) {
		return u.local(ErrChanged)
	}
	return nil
}

// cause tells a source that changed without a trace from one that was damaged on its way.
func (u *upload) cause(ctx context.Context, err error) error {
	if errors.Is(err, ErrChecksum) {
		if h, hashErr := hashOf(ctx, u.file, u.total); hashErr == nil && sum(h) != u.sha256 {
			return u.local(ErrChanged)
		}
	}
	return err
}

func (u *upload) local(err error) error { return fmt.Errorf("%q: %w", u.file.Name(), err) }
