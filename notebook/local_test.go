package notebook_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"colab-mcp/notebook"
)

func local(t *testing.T, allow ...string) *notebook.Local {
	t.Helper()
	l, err := notebook.NewLocal(allow)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, target, name string) string {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	return name
}

func TestLocalRefusesPathsOutside(t *testing.T) { // S5, --allow-dir
	base := t.TempDir()
	in, out := filepath.Join(base, "in"), filepath.Join(base, "out")
	write(t, filepath.Join(in, "sub", "a"), "a")
	secret := write(t, filepath.Join(out, "secret"), "s")
	hidden := write(t, filepath.Join(in, ".hidden"), "h")
	viaLink := link(t, in, filepath.Join(base, "door"))
	allowed := local(t, in)

	for path, want := range map[string]string{
		filepath.Join(in, "sub", "a"):              "a",
		filepath.Join(in, "sub", "..", "sub", "a"): "a",
		hidden: "h", // the list names it
		link(t, filepath.Join("sub", "a"), filepath.Join(in, "rel")):         "a",
		link(t, filepath.Join(in, "sub"), filepath.Join(in, "abs")) + "/a":   "a",
		link(t, filepath.Join("..", "in", "rel"), filepath.Join(in, "turn")): "", // steps outside on its way
		secret:                                       "",
		filepath.Join(out, "none"):                   "",
		filepath.Join(in, "..", "out", "x"):          "",
		link(t, secret, filepath.Join(in, "escape")): "",
		link(t, filepath.Join(out, "none"), filepath.Join(in, "dangling")):  "",
		link(t, "../out", filepath.Join(in, "escapedir")) + "/secret":       "",
		link(t, filepath.Join(in, "loop"), filepath.Join(in, "loop")) + "/": "",
		filepath.Join(viaLink, "sub", "a"):                                  "", // the door itself is outside
		in + "side":                                                         "",
	} {
		f, abs, err := allowed.Open(path)
		if want == "" {
			if !errors.Is(err, notebook.ErrNotAllowed) {
				t.Errorf("%s: %v, want ErrNotAllowed", path, err)
			}
			// Writing says the same, and writes nothing.
			if s, err := allowed.Stage(path, "", true); !errors.Is(err, notebook.ErrNotAllowed) {
				t.Errorf("writing %s: %v, want ErrNotAllowed", path, err)
				if err == nil {
					s.Discard()
				}
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		text, _ := io.ReadAll(f)
		f.Close()
		if string(text) != want || !filepath.IsAbs(abs) {
			t.Errorf("%s: %q at %s", path, text, abs)
		}
	}
	// Through the door when it was named as such.
	if f, abs, err := local(t, viaLink).Open(filepath.Join(viaLink, "sub", "a")); err != nil {
		t.Error(err)
	} else if f.Close(); !strings.HasSuffix(abs, filepath.Join("in", "sub", "a")) {
		t.Errorf("resolved to %s", abs)
	}
}

func TestLocalRefusalTellsNothing(t *testing.T) { // S5: the same words whether or not it exists
	base := t.TempDir()
	in := filepath.Join(base, "in")
	write(t, filepath.Join(in, "a"), "")
	write(t, filepath.Join(base, ".ssh", "real"), "")
	write(t, filepath.Join(base, "real"), "")
	words := func(l *notebook.Local, path string) string {
		_, _, err := l.Open(path)
		if !errors.Is(err, notebook.ErrNotAllowed) {
			t.Errorf("%s: %v", path, err)
			return ""
		}
		return strings.ReplaceAll(err.Error(), filepath.Base(path), "X")
	}
	pairs := []struct {
		l    *notebook.Local
		a, b string
	}{
		{local(t, in), filepath.Join(base, "real"), filepath.Join(base, "none")},
		{local(t), filepath.Join(base, ".ssh", "real"), filepath.Join(base, ".ssh", "none")},
		{local(t), link(t, filepath.Join(base, ".ssh", "real"), filepath.Join(base, "l1")), link(t, filepath.Join(base, ".ssh", "none"), filepath.Join(base, "l2"))},
		{local(t), filepath.Join(base, ".none", "real"), filepath.Join(base, ".ssh", "real")},
	}
	for _, p := range pairs {
		a, b := words(p.l, p.a), words(p.l, p.b)
		if a = strings.ReplaceAll(a, ".none", ".ssh"); a != b {
			t.Errorf("%q and %q differ", a, b)
		}
	}
}

func TestLocalWithoutAList(t *testing.T) { // S5: anything but hidden files and folders
	dir := t.TempDir()
	l := local(t)
	if f, _, err := l.Open(write(t, filepath.Join(dir, "a"), "x")); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	if _, _, err := l.Open(dir); !errors.Is(err, notebook.ErrIsDirectory) {
		t.Errorf("a directory: %v", err)
	}
	if _, _, err := l.Open(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	for _, name := range []string{".env", ".git/config", "sub/.x/y"} {
		if _, err := l.Stage(write(t, filepath.Join(dir, name), ""), "", true); !errors.Is(err, notebook.ErrNotAllowed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAbs(t *testing.T) { // O5
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	cwd := t.TempDir()
	t.Chdir(cwd)
	cwd, _ = os.Getwd()
	for path, want := range map[string]string{
		"~":        home,
		"~/a b":    filepath.Join(home, "a b"),
		"~x":       filepath.Join(cwd, "~x"),
		"a/../b":   filepath.Join(cwd, "b"),
		cwd + "/.": cwd,
	} {
		if got, err := notebook.Abs(path); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"", "a\x00b"} {
		if _, err := notebook.Abs(path); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", path, err)
		}
	}
	t.Chdir(filepath.VolumeName(cwd) + string(filepath.Separator))
	if _, err := notebook.Abs("a"); !errors.Is(err, notebook.ErrNeedAbsolute) {
		t.Errorf("relative in /: %v", err)
	}
	if _, err := notebook.Abs("~/a"); err != nil {
		t.Error(err)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStageCommits(t *testing.T) { // F1, E5
	dir := t.TempDir()
	l := local(t, dir)
	target := filepath.Join(dir, "it's \"q\"\n.csv")
	s, err := l.Stage(target, "", false)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "new")
	if _, err := os.Stat(target); err == nil {
		t.Error("the target is there before Commit")
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Discard()
	if read(t, target) != "new" || names(t, dir) != filepath.Base(target) {
		t.Errorf("%q in %q", read(t, target), names(t, dir))
	}
	if _, err := l.Stage(target, "", false); !errors.Is(err, notebook.ErrExists) {
		t.Errorf("a second time: %v, want ErrExists", err)
	}
	os.Chmod(target, 0o600)
	if s, err = l.Stage(target, "", true); err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "newer")
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(target); read(t, target) != "newer" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, mode %v", read(t, target), info.Mode())
	}
}

func TestStageNeverReplacesUnasked(t *testing.T) { // S5: no silent overwrite, not even of what came meanwhile
	dir := t.TempDir()
	s, err := local(t, dir).Stage(filepath.Join(dir, "a"), "", false)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a"), "theirs")
	if err := s.Commit(); !errors.Is(err, notebook.ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	if read(t, filepath.Join(dir, "a")) != "theirs" || names(t, dir) != "a" {
		t.Errorf("left %s", names(t, dir))
	}
}

// One call goes on with a staging file at the moment in which another sweeps it, and one with that of another target.
func TestStageIsNotSweptUnderItsCall(t *testing.T) { // F3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // or they hardly ever meet
	dir := t.TempDir()
	l := local(t, dir)
	for range 2000 {
		write(t, filepath.Join(dir, ".other.colab-mcp-a.part"), "half")
		part := write(t, filepath.Join(dir, ".f.colab-mcp-a.part"), "half")
		var all sync.WaitGroup
		var stages [3]*notebook.Stage
		for i, c := range []struct{ name, key string }{{"f", "a"}, {"f", "b"}, {"other", "a"}} {
			all.Go(func() {
				var err error
				if stages[i], err = l.Stage(filepath.Join(dir, c.name), c.key, false); err != nil && (c.name != "f" || !errors.Is(err, notebook.ErrStaging)) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, err := os.Stat(part); stages[0] != nil && err != nil {
			t.Error("the file of the first call is gone")
		}
		for _, s := range stages {
			if s != nil {
				s.Discard()
			}
		}
		if t.Failed() {
			return
		}
	}
}

func TestStageIsContinued(t *testing.T) { // F3
	dir := t.TempDir()
	l := local(t, dir)
	target := filepath.Join(dir, "a")
	s, err := l.Stage(target, "key", false)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "half")
	if _, err := l.Stage(target, "key", false); !errors.Is(err, notebook.ErrStaging) {
		t.Errorf("twice at once: %v", err)
	}
	s.Keep()
	if s, err = l.Stage(target, "key", false); err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(s); string(text) != "half" {
		t.Errorf("continued with %q", text)
	}
	s.Keep()
	// Another source: what was kept is of no use any more. Old ones of any name neither.
	old := write(t, filepath.Join(dir, ".b.colab-mcp-k.part"), "")
	os.Chtimes(old, time.Time{}, time.Now().Add(-100*time.Hour))
	write(t, filepath.Join(dir, ".c.colab-mcp-k.part"), "")
	if s, err = l.Stage(target, "other", false); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != ".a.colab-mcp-other.part .c.colab-mcp-k.part" {
		t.Errorf("left %s", got)
	}
	s.Discard()
	// A link in the place of the staging file is not followed.
	victim := write(t, filepath.Join(dir, "victim"), "v")
	link(t, "victim", filepath.Join(dir, ".a.colab-mcp-key.part"))
	if s, err = l.Stage(target, "key", false); err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "over")
	s.Discard()
	if read(t, victim) != "v" {
		t.Error("wrote through a planted link")
	}
}

func TestStageNeedsItsDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := local(t, dir).Stage(filepath.Join(dir, "none", "a"), "", false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want ErrNotExist", err)
	}
	if _, err := local(t, dir).Stage(dir, "", true); !errors.Is(err, notebook.ErrIsDirectory) {
		t.Errorf("%v, want ErrIsDirectory", err)
	}
	long := filepath.Join(dir, strings.Repeat("ü", 120)) // 240 bytes
	s, err := local(t, dir).Stage(long, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(); err != nil {
		t.Error(err)
	}
}
