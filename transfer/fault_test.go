package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"colab-mcp/notebook/kerneltest"
	"colab-mcp/state"
	"colab-mcp/transfer"
)

type direction struct {
	name string
	run  func(place, context.Context, transfer.Channel, transfer.Options) (transfer.Result, error)
	from func(place) string
	to   func(place) string
}

var directions = []direction{
	{"upload", func(p place, ctx context.Context, ch transfer.Channel, o transfer.Options) (transfer.Result, error) {
		return p.files.Upload(ctx, ch, o)
	}, func(p place) string { return p.local }, func(p place) string { return p.remote }},
	{"download", func(p place, ctx context.Context, ch transfer.Channel, o transfer.Options) (transfer.Result, error) {
		return p.files.Download(ctx, ch, o)
	}, func(p place) string { return p.remote }, func(p place) string { return p.local }},
}

// Every fault at every step: the target is the old file or the whole new one, a repeat brings it, and nothing else is left.
func TestEveryFaultAtEveryStep(t *testing.T) { // F1, F3, L3
	k := kerneltest.Plain(t, "")
	data, old := text(1_700_000), []byte("old") // three chunks
	for _, d := range directions {
		for f := range lastFault {
			t.Run(d.name+" "+f.String(), func(t *testing.T) {
				for step := 1; ; step++ {
					p := newPlace(t)
					from, to := filepath.Join(d.from(p), "f"), filepath.Join(d.to(p), "f")
					write(t, from, data)
					write(t, to, old)
					o := transfer.Options{LocalPath: filepath.Join(p.local, "f"), RemotePath: filepath.Join(p.remote, "f"), Overwrite: true}
					var confirmed int64
					o.Progress = func(p transfer.Progress) { confirmed = p.Bytes }
					ch := &channel{k: k, at: step, fault: f}
					got, err := d.run(p, t.Context(), ch, o)
					name := fmt.Sprintf("step %d of %d", step, ch.step)
					var interrupted *transfer.InterruptedError
					switch {
					case err == nil:
						holds(t, to, data)
						if got.Bytes != int64(len(data)) {
							t.Errorf("%s: %+v", name, got)
						}
					case errors.As(err, &interrupted):
						if f != dropBefore && f != dropAfter || !errors.Is(err, errDropped) {
							t.Errorf("%s: %v", name, err)
						}
						if interrupted.Confirmed != confirmed {
							t.Errorf("%s: %d bytes confirmed in words, %d in progress", name, interrupted.Confirmed, confirmed)
						}
						if now, _ := os.ReadFile(to); string(now) != string(old) && string(now) != string(data) {
							t.Errorf("%s: the target has %d bytes", name, len(now))
						}
						again, err := d.run(p, t.Context(), &channel{k: k}, o)
						if err != nil || !again.Identical && again.Resumed < interrupted.Confirmed {
							t.Errorf("%s: the repeat: %+v, %v", name, again, err)
						}
						holds(t, to, data)
					default:
						t.Errorf("%s: %v", name, err)
					}
					only(t, p.local, "f")
					only(t, p.remote, "f")
					if t.Failed() || step > ch.step {
						if step < 10 {
							t.Errorf("only %d steps", step)
						}
						return
					}
				}
			})
		}
	}
}

func TestRestartedKernelGoesOn(t *testing.T) { // F3: the files are still there, our module is not
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		for _, d := range directions {
			p := newPlace(t)
			data := random(3 << 20)
			write(t, filepath.Join(d.from(p), "f"), data)
			ch := &channel{k: k}
			restarted := false
			got, err := d.run(p, t.Context(), ch, transfer.Options{LocalPath: filepath.Join(p.local, "f"), RemotePath: filepath.Join(p.remote, "f"), Progress: func(p transfer.Progress) {
				if !restarted {
					restarted = true
					k.Restart()
				}
			}})
			if err != nil || got.Chunks > 8 {
				t.Errorf("%s: %+v, %v", d.name, got, err)
			}
			holds(t, filepath.Join(d.to(p), "f"), data)
			only(t, d.to(p), "f")
		}
	})
}

func TestNewRuntimeStartsOverAndSaysSo(t *testing.T) { // F3
	k := kerneltest.Plain(t, "")
	p := newPlace(t)
	disk := t.TempDir()
	data := random(2 << 20)
	o := transfer.Options{LocalPath: write(t, filepath.Join(p.local, "f"), data), RemotePath: filepath.Join(p.remote, "f")}
	ctx := t.Context()
	ch := &channel{k: k}
	o.Progress = func(transfer.Progress) { ch.mu.Lock(); ch.gone = true; ch.mu.Unlock() }
	end := p.serverOn(t, disk)
	if _, err := p.files.Upload(ctx, ch, o); !errors.Is(err, errDropped) {
		t.Fatal(err)
	}
	end()
	parts, _ := filepath.Glob(filepath.Join(p.remote, ".f.colab-mcp-*.part"))
	if len(parts) != 1 {
		t.Fatalf("staging files %q", parts)
	}
	os.Remove(parts[0]) // a new machine has no files
	k.Restart()
	o.Progress = nil
	defer p.serverOn(t, disk)()
	got, err := p.files.Upload(ctx, &channel{k: k}, o)
	if err != nil || got.Resumed != 0 || !strings.Contains(got.Note, "started over") {
		t.Errorf("%+v, %v", got, err)
	}
	holds(t, o.RemotePath, data)
	os.Remove(o.RemotePath) // by somebody else, later: nothing is lost then
	if got, err := p.files.Upload(ctx, &channel{k: k}, o); err != nil || got.Note != "" {
		t.Errorf("the next one: %+v, %v", got, err)
	}
}

// serverOn gives the place's files the memory of a server with that state directory.
func (p *place) serverOn(t *testing.T, dir string) (end func()) {
	t.Helper()
	d, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if p.files.Begun, err = d.Blobs("transfers", transfer.BegunLimits); err != nil {
		t.Fatal(err)
	}
	return func() { d.Close() }
}

func TestAnotherFileIsFetchedFromItsStart(t *testing.T) { // F3: a new runtime may have another file of that name
	k := kerneltest.Plain(t, "")
	p := newPlace(t)
	o := transfer.Options{RemotePath: write(t, filepath.Join(p.remote, "f"), random(2<<20)), LocalPath: filepath.Join(p.local, "f")}
	ch := &channel{k: k}
	o.Progress = func(transfer.Progress) { ch.mu.Lock(); ch.gone = true; ch.mu.Unlock() }
	if _, err := p.files.Download(t.Context(), ch, o); !errors.Is(err, errDropped) {
		t.Fatal(err)
	}
	write(t, o.RemotePath, random(1<<20))
	o.Progress = nil
	got, err := p.files.Download(t.Context(), &channel{k: k}, o)
	if err != nil || got.Resumed != 0 || !strings.Contains(got.Note, "started over") {
		t.Errorf("%+v, %v", got, err)
	}
	holds(t, o.LocalPath, random(1<<20))
	only(t, p.local, "f")
}

func TestDamagedStagingIsNotContinued(t *testing.T) { // F1
	k := kerneltest.Plain(t, "")
	for _, d := range directions {
		p := newPlace(t)
		data := random(2 << 20)
		write(t, filepath.Join(d.from(p), "f"), data)
		o := transfer.Options{LocalPath: filepath.Join(p.local, "f"), RemotePath: filepath.Join(p.remote, "f")}
		ch := &channel{k: k}
		o.Progress = func(transfer.Progress) { ch.mu.Lock(); ch.gone = true; ch.mu.Unlock() }
		if _, err := d.run(p, t.Context(), ch, o); !errors.Is(err, errDropped) {
			t.Fatal(err)
		}
		parts, _ := filepath.Glob(filepath.Join(d.to(p), ".f.colab-mcp-*.part"))
		if len(parts) != 1 {
			t.Fatalf("%s: staging files %q", d.name, parts)
		}
		f, err := os.OpenFile(parts[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteAt([]byte("flipped"), 1000)
		f.Close()
		o.Progress = nil
		got, err := d.run(p, t.Context(), &channel{k: k}, o)
		if err != nil || got.Resumed != 0 {
			t.Errorf("%s: %+v, %v", d.name, got, err)
		}
		holds(t, filepath.Join(d.to(p), "f"), data)
		only(t, d.to(p), "f")
	}
}

func TestCancelLeavesNothing(t *testing.T) { // F1, X4
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		for _, d := range directions {
			for after := range 3 {
				p := newPlace(t)
				write(t, filepath.Join(d.from(p), "f"), random(4<<20))
				write(t, filepath.Join(d.to(p), "f"), []byte("old"))
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				_, err := d.run(p, ctx, &channel{k: k}, transfer.Options{LocalPath: filepath.Join(p.local, "f"), RemotePath: filepath.Join(p.remote, "f"), Overwrite: true, Progress: func(transfer.Progress) {
					if n++; n > after {
						cancel()
					}
				}})
				cancel()
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", d.name, err)
				}
				holds(t, filepath.Join(d.to(p), "f"), []byte("old"))
				only(t, p.local, "f")
				only(t, p.remote, "f")
			}
		}
	})
}

func TestFullDisk(t *testing.T) { // F1
	k := kerneltest.Plain(t, "")
	p := newPlace(t)
	local := write(t, filepath.Join(p.local, "f"), random(2<<20))
	o := transfer.Options{LocalPath: local, RemotePath: write(t, filepath.Join(p.remote, "f"), []byte("old")), Overwrite: true}
	// The kernel may not write files above a megabyte: the second chunk fails in the middle.
	k.Run("import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, resource.RLIM_INFINITY))")
	if _, err := p.files.Upload(t.Context(), &channel{k: k}, o); !errors.Is(err, transfer.ErrNoSpace) {
		t.Errorf("in the middle: %v, want ErrNoSpace", err)
	}
	holds(t, o.RemotePath, []byte("old"))
	only(t, p.remote, "f")
	// Known before anything is sent.
	k.Run("resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\nimport shutil; real = shutil.disk_usage\nshutil.disk_usage = lambda p: real(p)._replace(free=1000)")
	ch := &channel{k: k}
	if _, err := p.files.Upload(t.Context(), ch, o); !errors.Is(err, transfer.ErrNoSpace) || ch.sent > 20_000 {
		t.Errorf("before: %v after %d bytes, want ErrNoSpace", err, ch.sent)
	}
	holds(t, o.RemotePath, []byte("old"))
	only(t, p.remote, "f")
}

func TestUnreliableChannelEnds(t *testing.T) { // bounded retries; what was confirmed is kept
	k := kerneltest.Plain(t, "")
	for _, d := range directions {
		p := newPlace(t)
		data := random(2 << 20)
		write(t, filepath.Join(d.from(p), "f"), data)
		o := transfer.Options{LocalPath: filepath.Join(p.local, "f"), RemotePath: filepath.Join(p.remote, "f")}
		ch := &channel{k: k}
		o.Progress = func(transfer.Progress) { ch.mu.Lock(); ch.deaf = true; ch.mu.Unlock() }
		_, err := d.run(p, t.Context(), ch, o)
		var interrupted *transfer.InterruptedError
		if !errors.Is(err, transfer.ErrUnreliable) || !errors.As(err, &interrupted) || interrupted.Confirmed == 0 {
			t.Errorf("%s: %v, want ErrUnreliable", d.name, err)
		}
		o.Progress = nil
		if got, err := d.run(p, t.Context(), &channel{k: k}, o); err != nil || got.Resumed == 0 {
			t.Errorf("%s: the repeat: %+v, %v", d.name, got, err)
		}
		holds(t, filepath.Join(d.to(p), "f"), data)
	}
}

// A page that cuts outputs above some size is met with smaller chunks.
func TestLongOutputsAreCutByThePage(t *testing.T) {
	k := kerneltest.Plain(t, "")
	p := newPlace(t)
	data := random(1 << 20)
	o := transfer.Options{RemotePath: write(t, filepath.Join(p.remote, "f"), data), LocalPath: filepath.Join(p.local, "f")}
	if _, err := p.files.Download(t.Context(), &channel{k: k, longest: 200_000}, o); err != nil {
		t.Fatal(err)
	}
	holds(t, o.LocalPath, data)
}
