package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"colab-mcp/notebook"
	"colab-mcp/notebook/kerneltest"
	"colab-mcp/transfer"
)

func kernels(t *testing.T, test func(t *testing.T, k *kerneltest.Kernel)) {
	t.Run("plain", func(t *testing.T) { test(t, kerneltest.Plain(t, "")) })
	t.Run("ipykernel", func(t *testing.T) { test(t, kerneltest.IPython(t)) })
}

// there and back uploads, downloads under another name and compares.
func thereAndBack(t *testing.T, k *kerneltest.Kernel, name string, data []byte) {
	t.Helper()
	p := newPlace(t)
	local, remote := write(t, filepath.Join(p.local, name), data), filepath.Join(p.remote, name)
	var last transfer.Progress
	up, err := p.files.Upload(t.Context(), &channel{k: k}, transfer.Options{LocalPath: local, RemotePath: remote, Progress: func(p transfer.Progress) {
		if p.Bytes <= last.Bytes || p.Total != int64(len(data)) {
			t.Errorf("progress %+v after %+v", p, last)
		}
		last = p
	}})
	if err != nil {
		t.Fatalf("upload %q: %v", name, err)
	}
	holds(t, remote, data)
	only(t, p.remote, name)
	if up.RemotePath != remote || up.LocalPath != local || up.Bytes != int64(len(data)) || len(up.SHA256) != 64 || last.Bytes != int64(len(data)) {
		t.Errorf("upload %q: %+v, last progress %+v", name, up, last)
	}
	back := filepath.Join(p.local, "back")
	down, err := p.files.Download(t.Context(), &channel{k: k}, transfer.Options{LocalPath: back, RemotePath: remote})
	if err != nil {
		t.Fatalf("download %q: %v", name, err)
	}
	holds(t, back, data)
	if down.SHA256 != up.SHA256 || down.Bytes != up.Bytes || down.LocalPath != back || down.RemotePath != remote {
		t.Errorf("download %q: %+v", name, down)
	}
	if entries, _ := os.ReadDir(p.local); len(entries) != 2 {
		t.Errorf("local litter: %v", entries)
	}
}

func TestNamesAreData(t *testing.T) { // F2
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		for _, name := range []string{
			"plain.csv", `it's "q".csv`, "$(touch x)", "a\nb", "`touch x`", "{x} %s %(a)s", "-rf", "ünï ☃ 漢字.txt", `back\slash`, "'''", "#!", " lead and trail ",
			"n.ipynb", "..double", "%%bash", "a;b&c|d", strings.Repeat("long", 60), "\u202egpj.exe", "tab\there", "\x01\x7f",
		} {
			thereAndBack(t, k, name, []byte(name))
		}
		only(t, k.Dir())
	})
}

func TestSizesAndBytes(t *testing.T) { // F2
	const chunk = 512 << 10
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		for _, n := range []int{0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3*chunk + 1, 8 * chunk} {
			thereAndBack(t, k, "random", random(n))
			thereAndBack(t, k, "text", text(n))
		}
		thereAndBack(t, k, "all", bytes.Repeat(all, 5000))
		thereAndBack(t, k, "sparse", append(make([]byte, 3<<20), 1))
	})
}

func TestExecutableStaysSo(t *testing.T) {
	k := kerneltest.Plain(t, "")
	p := newPlace(t)
	local := write(t, filepath.Join(p.local, "run.sh"), []byte("#!/bin/sh\n"))
	os.Chmod(local, 0o755)
	remote := filepath.Join(p.remote, "run.sh")
	if _, err := p.files.Upload(t.Context(), &channel{k: k}, transfer.Options{LocalPath: local, RemotePath: remote}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.files.Download(t.Context(), &channel{k: k}, transfer.Options{LocalPath: filepath.Join(p.local, "b"), RemotePath: remote}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{remote, filepath.Join(p.local, "b")} {
		if info, err := os.Stat(path); err != nil || info.Mode()&0o100 == 0 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

func TestIdenticalFileIsNotSent(t *testing.T) {
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		p := newPlace(t)
		data := random(100_000)
		o := transfer.Options{LocalPath: write(t, filepath.Join(p.local, "a"), data), RemotePath: filepath.Join(p.remote, "a")}
		write(t, o.RemotePath, data)
		ch := &channel{k: k}
		for name, f := range map[string]func(context.Context, transfer.Channel, transfer.Options) (transfer.Result, error){"upload": p.files.Upload, "download": p.files.Download} {
			got, err := f(t.Context(), ch, o) // overwrite is not needed for that
			if err != nil || !got.Identical || got.Chunks != 0 || got.Note == "" {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		if ch.sent > 30_000 {
			t.Errorf("%d bytes were sent", ch.sent)
		}
		only(t, p.local, "a")
		only(t, p.remote, "a")
	})
}

func TestRefusals(t *testing.T) { // F1, S5: the target stays as it was
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		p := newPlace(t)
		old := []byte("old")
		local := write(t, filepath.Join(p.local, "new"), []byte("new"))
		remote := write(t, filepath.Join(p.remote, "old"), old)
		write(t, filepath.Join(p.local, "old"), []byte("other"))
		os.Mkdir(filepath.Join(p.local, "dir"), 0o755)
		os.Mkdir(filepath.Join(p.remote, "dir"), 0o755)
		big := transfer.Files{Local: p.files.Local, Max: 2}
		k.Run("import os; os.mkfifo(" + quote(filepath.Join(p.remote, "fifo")) + ")")
		up := func(f *transfer.Files, local, remote string) error {
			_, err := f.Upload(t.Context(), &channel{k: k}, transfer.Options{LocalPath: local, RemotePath: remote})
			return err
		}
		down := func(f *transfer.Files, remote, local string) error {
			_, err := f.Download(t.Context(), &channel{k: k}, transfer.Options{LocalPath: local, RemotePath: remote})
			return err
		}
		var large *transfer.TooLargeError
		for name, c := range map[string]struct{ got, want error }{
			"upload over an old file":     {up(p.files, local, remote), notebook.ErrExists},
			"upload into no directory":    {up(p.files, local, filepath.Join(p.remote, "none", "x")), fs.ErrNotExist},
			"upload onto a fifo":          {up(p.files, local, filepath.Join(p.remote, "fifo")), notebook.ErrNotRegular},
			"upload of a directory":       {up(p.files, filepath.Join(p.local, "dir"), remote), notebook.ErrIsDirectory},
			"upload of nothing":           {up(p.files, filepath.Join(p.local, "none"), remote), fs.ErrNotExist},
			"upload from outside":         {up(p.files, remote, filepath.Join(p.remote, "x")), notebook.ErrNotAllowed},
			"upload of NUL":               {up(p.files, local, "a\x00b"), nil},
			"download over another file":  {down(p.files, remote, filepath.Join(p.local, "old")), notebook.ErrExists},
			"download of a directory":     {down(p.files, filepath.Join(p.remote, "dir"), filepath.Join(p.local, "x")), notebook.ErrIsDirectory},
			"download of a fifo":          {down(p.files, filepath.Join(p.remote, "fifo"), filepath.Join(p.local, "x")), notebook.ErrNotRegular},
			"download of nothing":         {down(p.files, filepath.Join(p.remote, "none"), filepath.Join(p.local, "x")), fs.ErrNotExist},
			"download to outside":         {down(p.files, remote, filepath.Join(p.remote, "x")), notebook.ErrNotAllowed},
			"download to no directory":    {down(p.files, remote, filepath.Join(p.local, "none", "x")), fs.ErrNotExist},
			"upload of a big file":        {up(&big, local, filepath.Join(p.remote, "x")), &transfer.TooLargeError{}},
			"download of a big file":      {down(&big, remote, filepath.Join(p.local, "x")), &transfer.TooLargeError{}},
			"download of a name like dir": {down(p.files, p.remote+"/..", filepath.Join(p.local, "x")), notebook.ErrIsDirectory},
		} {
			if _, isLarge := c.want.(*transfer.TooLargeError); isLarge {
				if !errors.As(c.got, &large) || large.Size != 3 || large.Max != 2 {
					t.Errorf("%s: %v", name, c.got)
				}
			} else if c.got == nil || c.want != nil && !errors.Is(c.got, c.want) {
				t.Errorf("%s: %v, want %v", name, c.got, c.want)
			}
		}
		holds(t, remote, old)
		only(t, p.local, "dir", "new", "old")
		only(t, p.remote, "dir", "fifo", "old")
	})
}

func quote(s string) string { return "'" + s + "'" }

func TestRemotePaths(t *testing.T) {
	k := kerneltest.Plain(t, "")
	p := newPlace(t)
	local := write(t, filepath.Join(p.local, "a.csv"), []byte("a"))
	if _, err := os.Stat("/content"); err == nil {
		t.Skip("this machine has a /content")
	}
	dir, err := filepath.EvalSymlinks(k.Dir())
	if err != nil {
		t.Fatal(err)
	}
	k.Run("import os; os.mkdir('sub'); os.environ['HOME'] = " + quote(p.remote))
	for remote, want := range map[string]string{
		"":          filepath.Join(dir, "a.csv"),
		"b":         filepath.Join(dir, "b"),
		"sub":       filepath.Join(dir, "sub", "a.csv"),
		"sub/../c":  filepath.Join(dir, "c"),
		"~/d":       filepath.Join(p.remote, "d"),
		p.remote:    filepath.Join(p.remote, "a.csv"),
		"./sub/./e": filepath.Join(dir, "sub", "e"),
	} {
		got, err := p.files.Upload(t.Context(), &channel{k: k}, transfer.Options{LocalPath: local, RemotePath: remote})
		if err != nil || got.RemotePath != want {
			t.Errorf("%q: %q, %v; want %q", remote, got.RemotePath, err, want)
		}
	}
	back := filepath.Join(p.local, "into")
	os.Mkdir(back, 0o755)
	if got, err := p.files.Download(t.Context(), &channel{k: k}, transfer.Options{RemotePath: "sub/e", LocalPath: back}); err != nil || got.LocalPath != filepath.Join(back, "e") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOverwriteReplacesAtOnce(t *testing.T) { // F1
	k := kerneltest.Plain(t, "")
	p := newPlace(t)
	o := transfer.Options{LocalPath: write(t, filepath.Join(p.local, "a"), random(700_000)), RemotePath: write(t, filepath.Join(p.remote, "a"), []byte("old")), Overwrite: true}
	os.Chmod(o.RemotePath, 0o600)
	o.Progress = func(transfer.Progress) { holds(t, o.RemotePath, []byte("old")) }
	if _, err := p.files.Upload(t.Context(), &channel{k: k}, o); err != nil {
		t.Fatal(err)
	}
	holds(t, o.RemotePath, random(700_000))
	if info, _ := os.Stat(o.RemotePath); info.Mode().Perm() != 0o600 {
		t.Errorf("mode became %v", info.Mode())
	}
}

func TestSourceChangesUnderneath(t *testing.T) { // F2
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		p := newPlace(t)
		old := []byte("old")
		for name, change := range map[string]func(path string){
			"grown": func(path string) {
				f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				f.WriteString("more")
				f.Close()
			},
			"cut": func(path string) { os.Truncate(path, 600<<10) },
			"edited in silence": func(path string) { // same size, same time
				info, _ := os.Stat(path)
				f, _ := os.OpenFile(path, os.O_WRONLY, 0)
				f.WriteAt([]byte("edited"), 2900<<10)
				f.Close()
				os.Chtimes(path, info.ModTime(), info.ModTime())
			},
		} {
			data := random(3 << 20)
			o := transfer.Options{Overwrite: true, LocalPath: write(t, filepath.Join(p.local, "a"), data), RemotePath: write(t, filepath.Join(p.remote, "a"), old)}
			o.Progress = func(pr transfer.Progress) {
				if pr.Bytes == 512<<10 {
					change(o.LocalPath)
				}
			}
			if _, err := p.files.Upload(t.Context(), &channel{k: k}, o); !errors.Is(err, transfer.ErrChanged) {
				t.Errorf("upload, %s: %v, want ErrChanged", name, err)
			}
			holds(t, o.RemotePath, old)
			only(t, p.remote, "a")

			write(t, o.RemotePath, data)
			write(t, o.LocalPath, old)
			o.Progress = func(pr transfer.Progress) {
				if pr.Bytes == 512<<10 {
					change(o.RemotePath)
				}
			}
			_, err := p.files.Download(t.Context(), &channel{k: k}, o)
			if !errors.Is(err, transfer.ErrChanged) && !(name == "edited in silence" && errors.Is(err, transfer.ErrChecksum)) {
				t.Errorf("download, %s: %v, want ErrChanged", name, err)
			}
			holds(t, o.LocalPath, old)
			only(t, p.local, "a")
		}
	})
}
