package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
	"colab-mcp/notebook/kerneltest"
)

// pausing is a kernel that runs Python, in which every chunk of a transfer
// stands still before it is carried out.
type pausing struct {
	tabtest.Kernel
	at   chan struct{} // a chunk has come
	step chan struct{} // lets one go, closed lets all go
}

func newPausing(t *testing.T) *pausing {
	python := kerneltest.Plain(t, "")
	k := &pausing{at: make(chan struct{}, 100), step: make(chan struct{}, 100)}
	run := func(_ context.Context, code string, s tabtest.Screen) {
		for _, out := range python.Run(code) {
			s.Write(out.Text)
		}
	}
	k.On("", run)
	for _, chunk := range []string{"'put', '", "'get', '"} {
		k.On(chunk, func(ctx context.Context, code string, s tabtest.Screen) {
			k.at <- struct{}{}
			select {
			case <-k.step:
			case <-ctx.Done():
			}
			run(ctx, code, s)
		})
	}
	return k
}

type transferJob struct {
	JobID  string `json:"job_id"`
	Kind   string
	Status string
	Error  string
	Result struct {
		Bytes  int
		Total  int
		SHA256 string
	}
}

// begunTransfer is a transfer of 8 MiB that stands at its first chunk and was
// handed back as a job.
type begunTransfer struct {
	*agent
	kernel   *pausing
	far      *tabtest.FarTab
	id       string
	from, to string
	data     []byte
}

func beginTransfer(t *testing.T, tool string) begunTransfer {
	t.Helper()
	b := begunTransfer{agent: serve(t, stateDir(t), "--soft-limit", "1s"), kernel: newPausing(t)}
	b.far = b.connect(b.ask(oneNotebook), tabtest.Knobs{Options: localtab.Options{Kernel: b.kernel}})
	local, remote := filepath.Join(t.TempDir(), "data.bin"), filepath.Join(t.TempDir(), "data.bin")
	b.from, b.to = local, remote
	if tool == "download_file" {
		b.from, b.to = remote, local
	}
	b.data = noise(t, b.from, 8<<20, 1)
	write(t, b.to, "old", 0o600)
	var job transferJob
	b.call(tool, args{"local_path": local, "remote_path": remote, "overwrite": true}).into(&job)
	if job.Status != "running" || job.JobID == "" {
		t.Fatalf("not handed back: %+v", job)
	}
	b.id = job.JobID
	<-b.kernel.at
	return b
}

func (b begunTransfer) job(wait float64) transferJob {
	b.t.Helper()
	var j transferJob
	b.call("job_status", args{"job_id": b.id, "wait_s": wait}).into(&j)
	return j
}

// ended lets everything go and waits for the job.
func (b begunTransfer) ended() (j transferJob) {
	b.t.Helper()
	waitFor(b.t, "the transfer's end", func() bool {
		j = b.job(1)
		return j.Status != "running"
	})
	return j
}

// F3, X3: a transfer that outlasts the soft limit is a job like any other; a
// foreground run goes between two of its chunks, and reads do not wait at all.
func TestTransferIsAJobThatLetsOthersIn(t *testing.T) {
	for _, tool := range []string{"upload_file", "download_file"} {
		t.Run(tool, func(t *testing.T) {
			b := beginTransfer(t, tool)
			verb := strings.TrimSuffix(tool, "_file")
			waitFor(t, "the second cell", func() bool {
				return bytes.Count(b.call("get_cells", nil).Raw, []byte("colab-mcp · "+verb+" data.bin · ")) >= 2
			})
			if o := outlineOf(b.agent); o.Total != 1 {
				t.Errorf("the outline has %d cells", o.Total)
			}
			var list struct{ Jobs []transferJob }
			if b.call("list_jobs", nil).into(&list); len(list.Jobs) != 1 || list.Jobs[0].Kind != tool || list.Jobs[0].Status != "running" {
				t.Errorf("list_jobs: %+v", list)
			}

			run := b.begin("run_code", args{"code": "print('between')"})
			waitFor(t, "the run's place in the queue", func() bool {
				b.call("list_jobs", nil).into(&list)
				return len(list.Jobs) == 2 && len(b.far.Calls("add_code_cell")) == 3
			})
			for range 3 {
				if slices.Contains(b.kernel.Ran(), "print('between')") {
					break
				}
				b.kernel.step <- struct{}{}
				<-b.kernel.at
			}
			if !slices.Contains(b.kernel.Ran(), "print('between')") {
				t.Error("the run waits behind three chunks")
			}
			if res := run.answer(); res.IsError { // on a slow machine it is a job by now
				t.Errorf("the run: %s", res.text())
			}
			b.kernel.step <- struct{}{}
			<-b.kernel.at // what a download fetched is written while the next chunk runs
			if j := b.job(0); j.Status != "running" || j.Kind != tool || j.Result.Bytes == 0 || j.Result.Bytes >= 8<<20 || j.Result.Total != 8<<20 {
				t.Errorf("between two chunks: %+v", j)
			}
			close(b.kernel.step)
			if j := b.ended(); j.Status != "done" || j.Result.Bytes != 8<<20 || len(j.Result.SHA256) != 64 {
				t.Errorf("in the end: %+v", j)
			}
			sameFile(t, b.to, b.data)
			noTemporaryCell(b.agent)
		})
	}
}

// X3: a transfer that is handed back before its first turn says why.
func TestTransferThatWaitsSaysForWhom(t *testing.T) {
	a, k, hold := serve(t, stateDir(t), "--soft-limit", "1s"), newPausing(t), make(chan struct{})
	close(k.step)
	k.On("# stand still", func(ctx context.Context, _ string, _ tabtest.Screen) {
		k.at <- struct{}{}
		select {
		case <-hold:
		case <-ctx.Done():
		}
	})
	a.connect(a.ask(oneNotebook), tabtest.Knobs{Options: localtab.Options{Kernel: k}})
	var run, upload transferJob
	a.call("run_code", args{"code": "# stand still", "background": true}).into(&run)
	<-k.at
	local := filepath.Join(t.TempDir(), "data.bin")
	noise(t, local, 1000, 1)
	res := a.call("upload_file", args{"local_path": local, "remote_path": filepath.Join(t.TempDir(), "data.bin")})
	res.into(&upload)
	want := `{"status":"running","job_id":"` + upload.JobID + `","note":"not begun: it waits for its turn behind run_code (` + run.JobID + `)"}`
	if res.text() != want {
		t.Errorf("got %s\nwant %s", res.text(), want)
	}
	close(hold)
	waitFor(t, "the transfer's end", func() bool {
		a.call("job_status", args{"job_id": upload.JobID, "wait_s": 1}).into(&upload)
		return upload.Status == "done"
	})
}

// F1, X3: a transfer that is cancelled leaves the target as it was, and nothing
// else.
func TestTransferIsCancelled(t *testing.T) {
	for _, tool := range []string{"upload_file", "download_file"} {
		t.Run(tool, func(t *testing.T) {
			b := beginTransfer(t, tool)
			b.kernel.step <- struct{}{}
			<-b.kernel.at // a chunk is there
			for range 2 {
				if res := b.call("cancel_job", args{"job_id": b.id}); res.IsError {
					t.Errorf("cancel_job: %s", res.text())
				}
			}
			close(b.kernel.step)
			if j := b.ended(); j.Status != "cancelled" {
				t.Errorf("in the end: %+v", j)
			}
			sameFile(t, b.to, []byte("old"))
			for _, path := range []string{b.from, b.to} {
				if fileNames(t, filepath.Dir(path)) != "data.bin" {
					t.Errorf("left behind: %s", fileNames(t, filepath.Dir(path)))
				}
			}
			noTemporaryCell(b.agent)
		})
	}
}

// F3: a machine that has nothing of what was sent before starts over and says
// so, also to a server that was not there then.
func TestNewRuntimeIsToldFromTheOldOne(t *testing.T) {
	far, state := newRuntime(t), stateDir(t)
	a := serve(t, state, "--soft-limit", "10m")
	tab := far.start(a, a.ask(oneNotebook))
	local := filepath.Join(t.TempDir(), "f")
	data := noise(t, local, 8<<20, 3)
	a.stops()
	a.send("tools/call", map[string]any{"name": "upload_file", "arguments": args{"local_path": local}, "_meta": map[string]any{"progressToken": 1}})
	a.moves(1)
	a.kill()
	tab.end()
	left, err := filepath.Glob(filepath.Join(far.dir, ".f.*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("left there: %q, %v", left, err)
	}
	if err := os.Remove(left[0]); err != nil {
		t.Fatal(err)
	}
	a = serve(t, state, "--soft-limit", "10m")
	far.start(a, a.ask(oneNotebook))
	var got struct {
		Note    string
		Resumed int `json:"resumed_bytes"`
	}
	if a.call("upload_file", args{"local_path": local}).into(&got); !strings.Contains(got.Note, "started over") || got.Resumed != 0 {
		t.Errorf("%+v", got)
	}
	sameFile(t, filepath.Join(far.dir, "f"), data)
}
