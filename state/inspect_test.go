package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// L12
func TestInspectNamesThePrimaryAndChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if _, err := Inspect(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a folder that is not there: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("Inspect made the folder")
	}
	cmd, in, _, _ := start(t, "hold", path)
	before := names(t, path)
	got, err := Inspect(path)
	if err != nil || got.PID != cmd.Process.Pid || got.Since.IsZero() {
		t.Errorf("a running primary: %+v, %v", got, err)
	}
	if after := names(t, path); !slices.Equal(before, after) {
		t.Errorf("the folder went from %v to %v", before, after)
	}
	in.Close()
	cmd.Wait()
	if got, err = Inspect(path); err != nil || got.PID != 0 {
		t.Errorf("after its end: %+v, %v", got, err)
	}
}

func TestInspectDoesNotTakeAKilledProcessForAPrimary(t *testing.T) {
	path := t.TempDir()
	cmd, _, _, _ := start(t, "hold", path)
	cmd.Process.Kill()
	cmd.Wait()
	if got, err := Inspect(path); err != nil || got.PID != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if d := open(t, path); !d.Primary() {
		t.Error("Inspect kept the lock")
	}
}

// S4
func TestInspectListsWhatOthersMayRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes on Windows")
	}
	path := t.TempDir()
	d := open(t, path)
	if err := d.Save("record.json", 1, counter{1}); err != nil {
		t.Fatal(err)
	}
	if got, err := Inspect(path); err != nil || len(got.Loose) != 0 {
		t.Errorf("a folder of ours: %+v, %v", got, err)
	}
	os.Chmod(filepath.Join(path, "record.json"), 0o644)
	os.Chmod(path, 0o755)
	if got, err := Inspect(path); err != nil || !slices.Equal(got.Loose, []string{".", "record.json"}) {
		t.Errorf("%+v, %v", got, err)
	}
	wantMode(t, filepath.Join(path, "record.json"), 0o644)
}

func TestPeekLeavesADamagedFileWhereItIs(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	if err := d.Save("record.json", 1, counter{7}); err != nil {
		t.Fatal(err)
	}
	var c counter
	if at, err := Peek(path, "record.json", 1, &c); err != nil || c.N != 7 || at.IsZero() {
		t.Errorf("%v, %v, %v", c, at, err)
	}
	os.WriteFile(filepath.Join(path, "record.json"), []byte(`{"version":1,"da`), 0o600)
	before := names(t, path)
	if _, err := Peek(path, "record.json", 1, &c); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a truncated file: %v", err)
	}
	if after := names(t, path); !slices.Equal(before, after) {
		t.Errorf("the folder went from %v to %v", before, after)
	}
	os.WriteFile(filepath.Join(path, "record.json"), []byte(`{"version":9,"data":{}}`), 0o600)
	var newer *VersionError
	if _, err := Peek(path, "record.json", 1, &c); !errors.As(err, &newer) {
		t.Errorf("a later version: %v", err)
	}
	if _, err := Peek(path, "other.json", 1, &c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
