package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func blobs(t *testing.T, d *Dir, limits Limits) *Blobs {
	t.Helper()
	b, err := d.Blobs("blobs", limits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustPut(t *testing.T, b *Blobs, key string, data []byte) {
	t.Helper()
	if err := b.Put(key, data); err != nil {
		t.Fatal(err)
	}
}

// bothKinds runs f on a disk and in memory, in virtual time.
func bothKinds(t *testing.T, f func(t *testing.T, d *Dir)) {
	t.Run("disk", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, open(t, t.TempDir())) })
	})
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, Memory()) })
	})
}

func TestBlobsGiveBackWhatWasPut(t *testing.T) {
	bothKinds(t, func(t *testing.T, d *Dir) {
		b := blobs(t, d, Limits{})
		for i, data := range [][]byte{nil, {0}, []byte("text\r\n"), bytes.Repeat([]byte{0xff, 0}, 1<<16)} {
			key := fmt.Sprint("k", i)
			mustPut(t, b, key, data)
			if len(data) > 0 {
				got, err := b.Get(key)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes, %v", key, len(got), err)
				}
				got[0]++ // what was given out is the caller's
			}
			if got, err := b.Get(key); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s again: %d bytes, %v", key, len(got), err)
			}
		}
		mustPut(t, b, "k1", []byte("second"))
		if got, err := b.Get("k1"); err != nil || string(got) != "second" {
			t.Errorf("replaced: %q, %v", got, err)
		}
		if got, want := b.Keys(), []string{"k1", "k3", "k2", "k0"}; !slices.Equal(got, want) {
			t.Errorf("keys %v, want %v", got, want)
		}
		for range 2 {
			if err := b.Delete("k1"); err != nil {
				t.Error(err)
			}
		}
		for _, key := range []string{"k1", "never", "../owner.json", ""} {
			if _, err := b.Get(key); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Get %q: %v", key, err)
			}
		}
		for _, key := range []string{"../x", "UPPER", ".tmp-x", ""} {
			if err := b.Put(key, nil); !errors.Is(err, ErrName) {
				t.Errorf("Put %q: %v", key, err)
			}
		}
		if _, err := d.Blobs("blobs", Limits{}); err == nil {
			t.Error("two accounts of one folder")
		}
		if _, err := d.Blobs(areasName, Limits{}); err == nil {
			t.Error("blobs among the areas")
		}
	})
}

// Issue 3.9: oldest first.
func TestOldestGoOverTheCap(t *testing.T) {
	bothKinds(t, func(t *testing.T, d *Dir) {
		b := blobs(t, d, Limits{Bytes: 100})
		for _, key := range []string{"a", "b", "c"} {
			mustPut(t, b, key, make([]byte, 30))
		}
		mustPut(t, b, "a", make([]byte, 40)) // exactly full, and now the newest
		if got, want := b.Keys(), []string{"a", "c", "b"}; !slices.Equal(got, want) {
			t.Errorf("keys %v, want %v", got, want)
		}
		mustPut(t, b, "d", []byte{1})
		if got, want := b.Keys(), []string{"d", "a", "c"}; !slices.Equal(got, want) {
			t.Errorf("keys %v, want %v", got, want)
		}
		if err := b.Put("e", make([]byte, 101)); !errors.Is(err, ErrTooLarge) || len(b.Keys()) != 3 {
			t.Errorf("one too large: %v, keys %v", err, b.Keys())
		}
		if _, err := b.Get("b"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("evicted: %v", err)
		}
	})
}

// Issue 3.2: the newest 64, for 24 hours.
func TestCountAndAgeAreLimited(t *testing.T) {
	bothKinds(t, func(t *testing.T, d *Dir) {
		b := blobs(t, d, Limits{Count: 64, Age: 24 * time.Hour})
		for i := range 70 {
			mustPut(t, b, fmt.Sprint("job-", i), []byte("x"))
			time.Sleep(time.Minute)
		}
		keys := b.Keys()
		if len(keys) != 64 || keys[0] != "job-69" || keys[63] != "job-6" {
			t.Errorf("%d keys, %v", len(keys), keys)
		}
		time.Sleep(24*time.Hour - 30*time.Minute) // those put in the last 30 minutes stay
		if got := len(b.Keys()); got != 30 {
			t.Errorf("%d keys a day later, want 30", got)
		}
		if _, err := b.Get("job-6"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an old one: %v", err)
		}
		if _, err := b.Get("job-69"); err != nil {
			t.Error(err)
		}
	})
}

func TestBlobsAreFoundAgainByTheNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		d := open(t, path)
		b := blobs(t, d, Limits{})
		for _, key := range []string{"z", "a", "m", "b"} {
			mustPut(t, b, key, make([]byte, 30))
			time.Sleep(time.Hour)
		}
		d.Close()
		folder := filepath.Join(path, "blobs")
		put(t, filepath.Join(folder, tempPrefix+"x"), "half", 0o600)
		wantMode(t, folder, 0o700)
		wantMode(t, filepath.Join(folder, "z"), 0o600)

		b = blobs(t, open(t, path), Limits{Bytes: 90, Age: 150 * time.Minute})
		if got, want := b.Keys(), []string{"b", "m"}; !slices.Equal(got, want) {
			t.Errorf("keys %v, want %v", got, want)
		}
		if got := names(t, folder); len(got) != 2 {
			t.Errorf("files %v", got)
		}
		mustPut(t, b, "new", make([]byte, 40))
		if got, want := b.Keys(), []string{"new", "b"}; !slices.Equal(got, want) {
			t.Errorf("the account was not rebuilt: keys %v, want %v", got, want)
		}
	})
}

// After a power failure a file can be there and not hold what was written.
func TestTornBlobIsMissingNotWrong(t *testing.T) {
	path := t.TempDir()
	b := blobs(t, open(t, path), Limits{})
	file := filepath.Join(path, "blobs", "k")
	for name, tear := range map[string]func(string) string{
		"cut":     func(s string) string { return s[:len(s)-1] },
		"empty":   func(string) string { return "" },
		"zeroes":  func(s string) string { return strings.Repeat("\x00", len(s)) },
		"flipped": func(s string) string { return "H" + s[1:] },
	} {
		mustPut(t, b, "k", []byte("hello"))
		put(t, file, tear(content(t, file)), 0o600)
		if data, err := b.Get("k"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if keys := b.Keys(); len(keys) > 0 {
			t.Errorf("%s: still listed: %v", name, keys)
		}
	}
	mustPut(t, b, "k", []byte("hello"))
	os.Remove(file)
	if _, err := b.Get("k"); !errors.Is(err, fs.ErrNotExist) || len(b.Keys()) > 0 {
		t.Errorf("removed by others: %v, keys %v", err, b.Keys())
	}
}

func TestBlobsServeManyAtOnce(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	b := blobs(t, d, Limits{Bytes: 1000})
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			for i := range 20 {
				key := fmt.Sprintf("k%d", (n+i)%10)
				if err := b.Put(key, bytes.Repeat([]byte(key), 100)); err != nil {
					t.Error(err)
				}
				data, err := b.Get(key)
				if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(data, bytes.Repeat([]byte(key), 100)) {
					t.Errorf("%s: %d bytes, %v", key, len(data), err)
				}
			}
		})
	}
	wg.Wait()
	if got := names(t, filepath.Join(path, "blobs")); len(got) != len(b.Keys()) || len(got) != 5 {
		t.Errorf("files %v, keys %v", got, b.Keys())
	}
}

// Whatever is done, the newest that fit are there and nothing else.
func TestBlobsAgreeWithAModel(t *testing.T) {
	type item struct {
		key  string
		size int
	}
	rapid.Check(t, func(rt *rapid.T) {
		const limitBytes, limitCount = 50, 4
		d := Memory()
		b, err := d.Blobs("b", Limits{Bytes: limitBytes, Count: limitCount})
		if err != nil {
			rt.Fatal(err)
		}
		var model []item // newest first
		drop := func(key string) {
			model = slices.DeleteFunc(model, func(it item) bool { return it.key == key })
		}
		for range rapid.IntRange(0, 40).Draw(rt, "steps") {
			it := item{rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(rt, "key"), rapid.IntRange(0, limitBytes).Draw(rt, "size")}
			drop(it.key)
			if rapid.Bool().Draw(rt, "delete") {
				if err := b.Delete(it.key); err != nil {
					rt.Fatal(err)
				}
			} else {
				if err := b.Put(it.key, make([]byte, it.size)); err != nil {
					rt.Fatal(err)
				}
				model = slices.Insert(model, 0, it)
			}
			sum := 0
			for i, it := range model {
				if sum += it.size; sum > limitBytes || i >= limitCount {
					model = model[:i]
					break
				}
			}
			var want []string
			for _, it := range model {
				want = append(want, it.key)
				if data, err := b.Get(it.key); err != nil || len(data) != it.size {
					rt.Fatalf("%s: %d bytes, %v", it.key, len(data), err)
				}
			}
			if got := b.Keys(); !slices.Equal(got, want) {
				rt.Fatalf("keys %v, want %v", got, want)
			}
		}
	})
}
