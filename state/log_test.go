package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

func openLog(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Issue 5.7: 5 × 5 MiB.
func TestLogRotates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	l := openLog(t, dir)
	wantMode(t, dir, 0o700)
	if l.Path() != filepath.Join(dir, "colab-mcp.log") {
		t.Errorf("path %s", l.Path())
	}
	pad := strings.Repeat("x", 60_000)
	const lines = 600 // 36 MB
	for i := range lines {
		if _, err := fmt.Fprintf(l, "time=%06d %s\n", i, pad); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"colab-mcp.log", "colab-mcp.log.1", "colab-mcp.log.2", "colab-mcp.log.3", "colab-mcp.log.4", "colab-mcp.log.lock"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %v", got)
	}
	for _, name := range want[:5] {
		wantMode(t, filepath.Join(dir, name), 0o600)
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Size() > 5<<20 || fi.Size() < 4<<20 && name != "colab-mcp.log" {
			t.Errorf("%s has %d bytes", name, fi.Size())
		}
	}
	got, err := Newest(dir, 200) // over three files
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range got {
		if want := fmt.Sprintf("time=%06d %s", lines-len(got)+i, pad); line != want {
			t.Fatalf("line %d of %d is %.20s", i, len(got), line)
		}
	}
	if len(got) != 200 {
		t.Errorf("%d lines", len(got))
	}
}

func TestLogGoesOnWhereItStopped(t *testing.T) {
	dir := t.TempDir()
	for _, line := range []string{"one\n", "two\n"} {
		l := openLog(t, dir)
		fmt.Fprint(l, line)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		fmt.Fprint(l, "after Close\n")
		os.Chmod(filepath.Join(dir, logName), 0o666)
	}
	openLog(t, dir)
	if got := content(t, filepath.Join(dir, logName)); got != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
	wantMode(t, filepath.Join(dir, logName), 0o600)
}

// L12
func TestSecondProcessLogsBesideTheFirst(t *testing.T) {
	dir := t.TempDir()
	first := openLog(t, dir)
	cmd, in, _, path := start(t, "log", dir)
	if want := filepath.Join(dir, fmt.Sprintf("colab-mcp-%d.log", cmd.Process.Pid)); path != want {
		t.Errorf("the second logs to %s, want %s", path, want)
	}
	fmt.Fprintln(first, "time=2026-01-02T00:00:01 from us")
	in.Close()
	cmd.Wait()
	fmt.Fprintln(first, "time=2026-01-02T00:00:03 from us")
	got, err := Newest(dir, 2)
	if err != nil || len(got) != 2 || !strings.HasSuffix(got[0], "from the child") || !strings.HasSuffix(got[1], ":03 from us") {
		t.Errorf("newest %q, %v", got, err)
	}
	// One process may open it twice, too.
	second, third := openLog(t, dir), openLog(t, dir)
	if second.Path() == third.Path() || second.Path() == first.Path() {
		t.Errorf("%s, %s and %s", first.Path(), second.Path(), third.Path())
	}
}

func TestOldLogsOfTheDeadAreRemoved(t *testing.T) {
	dir := t.TempDir()
	cmd, _, _, living := start(t, "log", dir) // takes the first name
	_, _, _, second := start(t, "log", dir)
	for i := range 6 {
		name := filepath.Join(dir, fmt.Sprintf("colab-mcp-10000%d.log", i))
		put(t, name, "x", 0o600)
		put(t, name+".1", "x", 0o600)
		fi, _ := os.Stat(second)
		at := fi.ModTime().AddDate(0, 0, i) // all newer than the living one's
		os.Chtimes(name, at, at)
	}
	put(t, filepath.Join(dir, "colab-mcp-notes.log"), "the user's", 0o600)
	cmd.Process.Kill()
	cmd.Wait()
	l := openLog(t, dir)
	if l.Path() != living {
		t.Errorf("the first name is free, but we log to %s", l.Path())
	}
	left := names(t, dir)
	for name, want := range map[string]bool{
		filepath.Base(second): true, "colab-mcp-notes.log": true,
		"colab-mcp-100000.log": false, "colab-mcp-100001.log": false, "colab-mcp-100001.log.1": false,
		"colab-mcp-100002.log": true, "colab-mcp-100002.log.1": true, "colab-mcp-100005.log": true, "colab-mcp-100005.log.lock": false,
	} {
		if slices.Contains(left, name) != want {
			t.Errorf("%s: want it there: %v; files %v", name, want, left)
		}
	}
}

// I1: an unwritable log folder costs the log and nothing else.
func TestUnwritableLogDiscards(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "", 0o600)
	dir := filepath.Join(file, "logs")
	l, err := OpenLog(dir)
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	if n, err := l.Write([]byte("line\n")); n != 5 || err != nil || l.Path() != "" {
		t.Errorf("Write: %d, %v, path %q", n, err, l.Path())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestLogIsNoWayOutOfItsFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symlinks need a privilege on Windows")
	}
	victim := filepath.Join(t.TempDir(), "victim")
	put(t, victim, "theirs", 0o644)
	dir := t.TempDir()
	os.Symlink(victim, filepath.Join(dir, logName))
	if l, err := OpenLog(dir); err == nil {
		t.Errorf("logs to %s", l.Path())
	}
	if content(t, victim) != "theirs" {
		t.Error("the link was followed")
	}
}

// --log /var/log must not lock others out.
func TestSharedLogFolderKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "syslog"), "", 0o644)
	os.Chmod(dir, 0o755)
	l := openLog(t, dir)
	wantMode(t, dir, 0o755)
	wantMode(t, l.Path(), 0o600)
}

func TestLogSurvivesWhatOthersDoToItsFiles(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	l.rotate = 10
	fmt.Fprintln(l, "first line")
	if runtime.GOOS != "windows" {
		os.Remove(l.Path())
	}
	fmt.Fprintln(l, "second line")
	if got := content(t, l.Path()); got != "second line\n" {
		t.Errorf("got %q", got)
	}
	// Something in the way that cannot be moved: the log grows on.
	for i := 1; i < logFiles; i++ {
		os.MkdirAll(filepath.Join(dir, generation(logName, i), "x"), 0o700)
	}
	l.rotate = 10
	fmt.Fprintln(l, "third line")
	if got := content(t, l.Path()); got != "second line\nthird line\n" {
		t.Errorf("got %q", got)
	}
	if l.rotate <= l.size {
		t.Error("every line tries again")
	}
}

func TestLogLinesOfManyStayWhole(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	l.size, l.rotate = 4000, 4000
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			for range 10 {
				fmt.Fprintf(l, "time=%d %s\n", n, strings.Repeat(string(rune('a'+n)), 50))
			}
		})
	}
	wg.Wait()
	got, err := Newest(dir, 1000)
	if err != nil || len(got) != 200 {
		t.Fatalf("%d lines, %v", len(got), err)
	}
	for _, line := range got {
		_, letters, _ := strings.Cut(line, " ")
		if len(letters) != 50 || strings.Trim(letters, letters[:1]) != "" {
			t.Errorf("a torn line: %q", line)
		}
	}
}

func TestNoLogsIsNotExist(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := Newest(d, 5); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}
