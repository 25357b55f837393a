package transfer

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A page that cuts what is longer than limit, and a round trip with a cost per chunk and per byte.
func checkPlan(t *rapid.T) { // F3
	limit := rapid.IntRange(minChunk, 2*maxChunk).Draw(t, "limit")
	fixed := time.Duration(rapid.IntRange(0, int(3*time.Second)).Draw(t, "fixed"))
	perMB := time.Duration(rapid.IntRange(0, int(3*time.Second)).Draw(t, "perMB"))
	var p plan
	if p.next() != firstChunk {
		t.Fatalf("begins with %d", p.next())
	}
	good, bad, last := 0, 0, 0
	for range rapid.IntRange(1, 400).Draw(t, "chunks") {
		n := p.next()
		if n < minChunk || n > maxChunk || n != p.next() {
			t.Fatalf("a chunk of %d", n)
		}
		if n > limit {
			bad++
			if !p.lost() {
				t.Fatalf("gave up at %d, the page takes %d", n, limit)
			}
			if next := p.next(); next > n/2 && next != minChunk {
				t.Fatalf("%d after %d failed", next, n)
			}
			continue
		}
		good++
		took := fixed + perMB*time.Duration(n)/(1<<20)
		p.came(n, took)
		switch next := p.next(); {
		case next > n && took >= briefChunk && n == last:
			t.Fatalf("grew to %d after %v", next, took)
		case next < n && took <= longChunk:
			t.Fatalf("shrank to %d after %v", next, took)
		}
		last = n
	}
	if bad > 6+good/forgive {
		t.Fatalf("%d of %d chunks failed", bad, good+bad)
	}
}

func TestPlanStaysInBounds(t *testing.T) { rapid.Check(t, checkPlan) }

func FuzzPlan(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkPlan)) }

func TestPlanGivesUp(t *testing.T) {
	var p plan
	for i := 1; p.lost(); i++ {
		if i >= maxFailed {
			t.Fatal("never")
		}
	}
	p.came(minChunk, 0)
	if !p.lost() {
		t.Error("a good chunk did not count")
	}
}

func TestPlanFindsItsSize(t *testing.T) {
	for name, c := range map[string]struct {
		took func(n int) time.Duration
		want int
	}{
		"a fast channel":          {func(int) time.Duration { return time.Millisecond }, maxChunk},
		"a slow channel":          {func(n int) time.Duration { return time.Duration(n) * time.Second / minChunk }, minChunk},
		"half a second per chunk": {func(int) time.Duration { return time.Second / 2 }, firstChunk},
	} {
		var p plan
		for range 20 {
			p.came(p.next(), c.took(p.next()))
		}
		if p.next() != c.want {
			t.Errorf("%s: %d, want %d", name, p.next(), c.want)
		}
	}
	var p plan
	p.came(100, time.Millisecond) // a small last chunk says nothing about larger ones
	if p.next() != firstChunk {
		t.Errorf("%d after a short chunk", p.next())
	}
}

func TestMeter(t *testing.T) {
	now := time.Unix(0, 0)
	var got []Progress
	m := newMeter(func(p Progress) { got = append(got, p) }, func() time.Time { return now }, 1000)
	m.resumed = 200
	m.reached(200) // no time has passed
	now = now.Add(2 * time.Second)
	m.reached(600)
	now = now.Add(2 * time.Second)
	m.reached(1000)
	want := []Progress{{200, 1000, 0, 0}, {600, 1000, 200, 2 * time.Second}, {1000, 1000, 200, 0}}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	newMeter(nil, time.Now, 1).reached(1)
}

func TestTitle(t *testing.T) {
	for want, got := range map[string]string{
		"colab-mcp · upload data.csv · 37 %": title("upload", "data.csv", 379, 1000),
		"colab-mcp · download f · 0 %":       title("download", "f", 0, 0), // its size is not known yet
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPackAndUnpack(t *testing.T) { // F2
	var p packer
	rapid.Check(t, func(t *rapid.T) {
		chunk := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"), rapid.IntRange(1, 300).Draw(t, "times"))
		packed := bytes.Clone(p.pack(chunk))
		got, err := unpack(packed, len(chunk))
		if err != nil || !bytes.Equal(got, chunk) {
			t.Fatalf("%d bytes came back as %d: %v", len(chunk), len(got), err)
		}
		if _, err := unpack(packed, len(chunk)+1); err == nil {
			t.Fatal("too few bytes were taken")
		}
		if len(chunk) > 0 {
			if _, err := unpack(packed, len(chunk)-1); err == nil {
				t.Fatal("too many bytes were taken")
			}
		}
		packed[len(packed)-1] ^= 1
		if _, err := unpack(packed, len(chunk)); err == nil {
			t.Fatal("a wrong sum was taken")
		}
	})
}

func TestPacksWhatGains(t *testing.T) {
	noise := make([]byte, 1<<20)
	seed := uint64(1)
	for i := range noise {
		seed = seed*6364136223846793005 + 1442695040888963407
		noise[i] = byte(seed >> 56)
	}
	words := bytes.Repeat([]byte("some words "), 1<<17)
	for name, c := range map[string]struct {
		data []byte
		want bool
	}{
		"words":              {words, true},
		"noise":              {noise, false},
		"empty":              {nil, false},
		"one byte":           {[]byte("x"), false},
		"short words":        {words[:300], true},
		"noise behind words": {append(words[:100<<10:100<<10], noise...), true}, // a third of the sample
	} {
		if c.want && len(c.data) == 0 {
			t.Fatal(name)
		}
		got, err := packs(bytes.NewReader(c.data), int64(len(c.data)))
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
