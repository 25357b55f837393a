package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

type record struct {
	Token string `json:"token"`
	Port  int    `json:"port"`
}

func TestSavedIsLoaded(t *testing.T) {
	path := t.TempDir()
	want := record{"a<b>&c", 1 << 53}
	d := open(t, path)
	if err := d.Save("c.json", 1, want); err != nil {
		t.Fatal(err)
	}
	d.Close()
	var got record
	if err := open(t, path).Load("c.json", 1, &got); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
	wantMode(t, filepath.Join(path, "c.json"), 0o600)
	if s := content(t, filepath.Join(path, "c.json")); !strings.Contains(s, `"version": 1`) || !strings.Contains(s, "a<b>&c") {
		t.Errorf("not for people: %s", s)
	}
}

func TestAbsentFileIsNotExist(t *testing.T) {
	if err := open(t, t.TempDir()).Load("c.json", 1, new(record)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// L12: every way of being damaged.
func TestDamagedFileIsSetAside(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	if err := d.Save("c.json", 1, record{"t", 5}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "c.json")
	whole := content(t, file)
	damaged := []string{"", "hello", "[]", "{}", "null", `{"version":1}`, `{"version":0,"data":{}}`, `{"version":1,"data":{"port":"x"}}`,
		`{"data":{"port":1}}`, strings.Repeat("\x00", len(whole)), whole + whole}
	for cut := range strings.TrimSpace(whole) {
		damaged = append(damaged, whole[:cut])
	}
	for _, text := range damaged {
		put(t, file, text, 0o600)
		if err := d.Load("c.json", 1, new(record)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "c.json.bad") {
			t.Errorf("%q: %v", text, err)
		}
		if got := content(t, file+".bad"); got != text {
			t.Errorf("set aside %q, want %q", got, text)
		}
		if err := d.Load("c.json", 1, new(record)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: then %v", text, err)
		}
	}
	if err := d.Save("c.json", 1, record{"fresh", 6}); err != nil {
		t.Error(err)
	}
}

func TestLaterVersionIsRefusedAndKept(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "c.json")
	text := `{"version":3,"data":["another shape"]}`
	d := open(t, path)
	put(t, file, text, 0o600)
	for what, err := range map[string]error{
		"Load": d.Load("c.json", 2, new(record)),
		"Save": d.Save("c.json", 2, record{}),
	} {
		var later *VersionError
		if !errors.As(err, &later) || *later != (VersionError{"c.json", 3, 2}) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := content(t, file); got != text {
		t.Errorf("the file is now %s", got)
	}
	if err := d.Load("c.json", 4, new([]string)); err != nil {
		t.Errorf("an older version: %v", err)
	}
}

// S4
func TestLoosenedFileIsTightened(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "c.json")
	d := open(t, path)
	if err := d.Save("c.json", 1, record{}); err != nil {
		t.Fatal(err)
	}
	os.Chmod(file, 0o666)
	if err := d.Load("c.json", 1, new(record)); err != nil {
		t.Fatal(err)
	}
	wantMode(t, file, 0o600)
	os.Chmod(file, 0o666)
	if err := d.Save("c.json", 1, record{}); err != nil {
		t.Fatal(err)
	}
	wantMode(t, file, 0o600)
}

func TestSymlinkIsReplacedNotFollowed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symlinks need a privilege on Windows")
	}
	victim := filepath.Join(t.TempDir(), "victim")
	secret := `{"version":1,"data":{"token":"theirs"}}`
	put(t, victim, secret, 0o644)
	path := t.TempDir()
	file := filepath.Join(path, "c.json")
	d := open(t, path)
	link := func() {
		if err := os.Symlink(victim, file); err != nil {
			t.Fatal(err)
		}
	}
	link()
	var got record
	if err := d.Load("c.json", 1, &got); !errors.Is(err, ErrCorrupt) || got.Token != "" {
		t.Errorf("Load read through the link: %v, %v", got, err)
	}
	link()
	if err := d.Save("c.json", 1, record{"ours", 1}); err != nil {
		t.Fatal(err)
	}
	if fi, _ := os.Lstat(file); !fi.Mode().IsRegular() {
		t.Errorf("c.json is %v", fi.Mode())
	}
	if content(t, victim) != secret {
		t.Error("Save wrote through the link")
	}
	wantMode(t, victim, 0o644)
}

func TestConcurrentSavesAreEachWhole(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	type wide struct{ Rows []int }
	rows := func(n int) (w wide) {
		for range 5000 {
			w.Rows = append(w.Rows, n)
		}
		return w
	}
	check := func(w wide) {
		if len(w.Rows) != 5000 {
			t.Errorf("%d rows", len(w.Rows))
		}
		for _, r := range w.Rows {
			if r != w.Rows[0] {
				t.Errorf("rows of %d and %d in one file", w.Rows[0], r)
				return
			}
		}
	}
	if err := d.Save("w.json", 1, rows(0)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if err := d.Save("w.json", 1, rows(n)); err != nil {
				t.Error(err)
			}
			var w wide
			if err := d.Load("w.json", 1, &w); err != nil {
				t.Error(err)
			}
			check(w)
		})
	}
	wg.Wait()
	wantMode(t, filepath.Join(path, "w.json"), 0o600)
	wantNoTemp(t, path)
}

func TestNamesStayInTheFolder(t *testing.T) {
	d := open(t, t.TempDir())
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "/etc/passwd", "C:x", ".hidden", "A", "x.", "a\x00b", "a\n", "é",
		strings.Repeat("x", 101)} {
		if err := d.Save(name, 1, 1); !errors.Is(err, ErrName) {
			t.Errorf("Save %q: %v", name, err)
		}
		if err := d.Load(name, 1, new(int)); !errors.Is(err, ErrName) {
			t.Errorf("Load %q: %v", name, err)
		}
		if _, err := d.Blobs(name, Limits{}); !errors.Is(err, ErrName) {
			t.Errorf("Blobs %q: %v", name, err)
		}
	}
}
