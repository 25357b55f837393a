package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// L12
func TestSecondProcessWorksBesideTheFirst(t *testing.T) {
	path := t.TempDir()
	cmd, in, _, primary := start(t, "hold", path)
	if primary != "true" {
		t.Fatal("the first process is not primary")
	}
	d := open(t, path)
	if d.Primary() {
		t.Fatal("two primaries")
	}
	if pid, since, ok := d.Holder(); !ok || pid != cmd.Process.Pid || since.IsZero() {
		t.Errorf("holder %d since %v (%v), want %d", pid, since, ok, cmd.Process.Pid)
	}
	before := names(t, path)
	if err := d.Save("record.json", 1, counter{2}); err != nil {
		t.Fatal(err)
	}
	b, err := d.Blobs("outputs", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put("k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if after := names(t, path); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("the first's folder went from %v to %v", before, after)
	}
	var c counter
	if err := d.Load("record.json", 1, &c); err != nil || c.N != 2 {
		t.Errorf("own record: %v, %v", c, err)
	}
	wantMode(t, filepath.Join(path, areasName), 0o700)
	for _, n := range names(t, filepath.Join(path, areasName)) {
		if !strings.HasSuffix(n, lockSuffix) {
			wantMode(t, filepath.Join(path, areasName, n), 0o700)
			wantMode(t, filepath.Join(path, areasName, n, "outputs", "k"), 0o600)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if left := names(t, filepath.Join(path, areasName)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if d := open(t, path); !d.Primary() {
		t.Error("the folder is free and was not taken")
	}
}

// L12: a lock does not outlive kill -9.
func TestKilledPrimaryIsFollowedAtOnce(t *testing.T) {
	path := t.TempDir()
	cmd, _, _, _ := start(t, "hold", path)
	cmd.Process.Kill()
	cmd.Wait()
	d := open(t, path)
	if !d.Primary() {
		t.Fatal("a dead process holds the folder")
	}
	if pid, _, ok := d.Holder(); !ok || pid != os.Getpid() {
		t.Errorf("holder is %d (%v), want %d", pid, ok, os.Getpid())
	}
}

func TestPrimarySweepsTheDeadAndSparesTheLiving(t *testing.T) {
	path := t.TempDir()
	first := open(t, path)
	dead, _, _, _ := start(t, "hold", path)
	living, _, _, _ := start(t, "hold", path)
	dead.Process.Kill()
	dead.Wait()
	first.Close()
	put(t, filepath.Join(path, tempPrefix+"x"), "half", 0o600)

	d := open(t, path)
	if !d.Primary() {
		t.Fatal("not primary")
	}
	if left := names(t, filepath.Join(path, areasName)); len(left) != 2 { // the area and its lock
		t.Errorf("%d is alive; areas: %v", living.Process.Pid, left)
	}
	if got := d.Secondaries(); len(got) != 1 || got[0] != living.Process.Pid {
		t.Errorf("secondaries %v, want %d", got, living.Process.Pid)
	}
	if got := open(t, path).Secondaries(); got != nil {
		t.Errorf("a secondary lists %v", got)
	}
	wantNoTemp(t, path)
}

// Of several callers at once none takes the lock of another for that of a living process.
func TestDeadSecondaryIsNamedByNobody(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	area := filepath.Join(path, areasName, "4711-dead")
	for range 100 {
		if err := os.MkdirAll(area, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, area+lockSuffix, "", 0o600)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if got := d.Secondaries(); got != nil {
					t.Errorf("secondaries %v", got)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}

// S4
func TestFolderIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "state")
	open(t, path).Close()
	wantMode(t, path, 0o700)
	os.Chmod(path, 0o777)
	open(t, path).Close()
	wantMode(t, path, 0o700)
}

func TestForeignFolderIsRefusedAndLeftAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	path := t.TempDir()
	put(t, filepath.Join(path, "thesis.tex"), "", 0o644)
	os.Chmod(path, 0o755)
	if _, err := Open(path); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v", err)
	}
	wantMode(t, path, 0o755)
	os.Chmod(path, 0o700)
	open(t, path)
}

func TestOpenSaysWhereItFailed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "", 0o600)
	path := filepath.Join(file, "state")
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestClosedDirWritesNothing(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	b, err := d.Blobs("b", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	next := open(t, path)
	if err := d.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := d.Save("x.json", 1, counter{}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Save: %v", err)
	}
	if err := b.Put("k", nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Put: %v", err)
	}
	if pid, _, ok := next.Holder(); !ok || pid != os.Getpid() {
		t.Error("closing twice took the next holder's name away")
	}
}

// --ephemeral
func TestMemoryBehavesAlike(t *testing.T) {
	d := Memory()
	if !d.Primary() || d.Path() != "" {
		t.Error("memory is not its own primary")
	}
	if _, _, ok := d.Holder(); ok {
		t.Error("memory has a holder")
	}
	var c counter
	if err := d.Load("x.json", 1, &c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load: %v", err)
	}
	if err := d.Save("x.json", 2, counter{3}); err != nil {
		t.Fatal(err)
	}
	if err := d.Load("x.json", 2, &c); err != nil || c.N != 3 {
		t.Errorf("Load: %v, %v", c, err)
	}
	var later *VersionError
	if err := d.Load("x.json", 1, &c); !errors.As(err, &later) {
		t.Errorf("Load of a later version: %v", err)
	}
	b, err := d.Blobs("b", Limits{Bytes: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put("big", make([]byte, memoryBytes+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("memory is not bounded: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestHolderIsForgottenWhenItEnds(t *testing.T) {
	path := t.TempDir()
	first, second := open(t, path), open(t, path)
	if _, _, ok := second.Holder(); !ok {
		t.Error("the holder is not known")
	}
	first.Close()
	if pid, _, ok := second.Holder(); ok {
		t.Errorf("%d has ended and is named", pid)
	}
}

// Whoever holds the lock may remove its file, and others wait at the door meanwhile.
func TestLockWhoseFileGoesIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	var holders, held atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 300 {
				l, ok, err := claim(path)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					continue
				}
				if held.Add(1); holders.Add(1) != 1 {
					t.Error("two holders")
				}
				runtime.Gosched()
				holders.Add(-1)
				drop(l)
			}
		})
	}
	wg.Wait()
	if held.Load() == 0 {
		t.Error("nobody ever got it")
	}
}

// L12: clients that start all at once.
func TestManyOpenAtOnceAndOneIsPrimary(t *testing.T) {
	path := t.TempDir()
	var primaries atomic.Int32
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			for range 10 {
				d, err := Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Primary() && primaries.Add(1) != 1 {
					t.Error("two primaries")
				}
				var c counter
				if err := d.Save("record.json", 1, counter{n}); err != nil {
					t.Error(err)
				}
				if err := d.Load("record.json", 1, &c); err != nil || c.N != n {
					t.Errorf("saved %d, loaded %d, %v", n, c.N, err)
				}
				if d.Primary() {
					primaries.Add(-1)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	first := open(t, path) // so that there are areas even if none of the above ever met
	if err := open(t, path).Close(); err != nil || !first.Primary() {
		t.Errorf("the last two: primary %v, %v", first.Primary(), err)
	}
	if left := names(t, filepath.Join(path, areasName)); len(left) > 0 {
		t.Errorf("areas left: %v", left)
	}
}
