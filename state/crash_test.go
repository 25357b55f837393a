package state

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

type counter struct{ N int }

// writeEverything replaces an old record, blob and user file with new ones.
func writeEverything(dir string) error {
	d, err := Open(filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	if err := d.Save("record.json", 1, counter{2}); err != nil {
		return err
	}
	b, err := d.Blobs("blobs", Limits{})
	if err != nil {
		return err
	}
	if err := b.Put("k", []byte("new")); err != nil {
		return err
	}
	f, err := Create(filepath.Join(dir, "user.txt"), 0o644, true)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte("new")); err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return err
	}
	// Setting a damaged file aside is a write too.
	if err := os.WriteFile(filepath.Join(dir, "state", "damaged.json"), []byte("{"), 0o600); err != nil {
		return err
	}
	d.Load("damaged.json", 1, new(counter))
	return d.Close()
}

// Issue 5.4: kill -9 at any moment leaves a state the next start accepts.
func TestKillAtEveryStepLeavesOldOrNew(t *testing.T) {
	step, survived := 0, false
	for ; !survived; step++ {
		dir := t.TempDir()
		state, user := filepath.Join(dir, "state"), filepath.Join(dir, "user.txt")
		before := open(t, state)
		if err := before.Save("record.json", 1, counter{1}); err != nil {
			t.Fatal(err)
		}
		blobs, err := before.Blobs("blobs", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := blobs.Put("k", []byte("old")); err != nil {
			t.Fatal(err)
		}
		put(t, user, "old", 0o644)
		before.Close()

		cmd := child(t, "crash", dir, "STATE_STEP="+strconv.Itoa(step))
		survived = cmd.Run() == nil
		if !survived && cmd.ProcessState.Exited() {
			t.Fatalf("step %d: the child failed instead of dying: %v", step, cmd.ProcessState)
		}

		d, err := Open(state)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if !d.Primary() {
			t.Errorf("step %d: a dead process still holds the lock", step)
		}
		var c counter
		if err := d.Load("record.json", 1, &c); err != nil || c.N != 1 && c.N != 2 {
			t.Errorf("step %d: record %v, %v", step, c, err)
		}
		blobs, err = d.Blobs("blobs", Limits{})
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		blob, err := blobs.Get("k")
		if s := string(blob); err != nil || s != "old" && s != "new" {
			t.Errorf("step %d: blob %q, %v", step, s, err)
		}
		if s := content(t, user); s != "old" && s != "new" {
			t.Errorf("step %d: user file %q", step, s)
		}
		if survived && (c.N != 2 || string(blob) != "new" || content(t, user) != "new") {
			t.Errorf("nothing was written: %v %q", c, blob)
		}
		wantNoTemp(t, state)
		wantNoTemp(t, filepath.Join(state, "blobs"))
		d.Close()
	}
	// Four files of four steps, and one rename.
	if step < 16 {
		t.Errorf("only %d steps were tried", step)
	}
}

func saveForever(dir string) {
	d, err := Open(dir)
	childMust(err)
	for n := 1; ; n++ {
		childMust(d.Save("record.json", 1, counter{n}))
		fmt.Println(n)
	}
}

// Issue 5.4, from outside: what Save has returned for is there after kill -9.
func TestKilledWriterLosesNothingItSaved(t *testing.T) {
	dir := t.TempDir()
	for _, lines := range []int{1, 2, 7, 20} {
		cmd, _, out, line := start(t, "count", dir)
		for range lines {
			var err error
			if line, err = out.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(out); s.Scan(); {
			line = s.Text()
		}
		cmd.Wait()
		last, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		d := open(t, dir)
		var c counter
		if err := d.Load("record.json", 1, &c); err != nil || c.N < last || c.N > last+1 {
			t.Errorf("after %d was saved: %d, %v", last, c.N, err)
		}
		wantNoTemp(t, dir)
		d.Close()
	}
}
