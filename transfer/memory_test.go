package transfer_test

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"colab-mcp/notebook/kerneltest"
	"colab-mcp/transfer"
)

// IPython keeps the source of every cell in six places; a transfer must not fill them.
func TestKernelMemoryStaysFlat(t *testing.T) { // F3: bounded memory
	k := kerneltest.IPython(t)
	p := newPlace(t)
	number := func(expr string) int {
		t.Helper()
		var text strings.Builder
		for _, out := range k.Run("print(" + expr + ")") {
			text.WriteString(out.Text + out.EValue)
		}
		n, err := strconv.Atoi(strings.TrimSpace(text.String()))
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		return n
	}
	move := func(n int) {
		t.Helper()
		o := transfer.Options{LocalPath: write(t, filepath.Join(p.local, "f"), random(n)), RemotePath: filepath.Join(p.remote, "f"), Overwrite: true}
		if _, err := p.files.Upload(t.Context(), &channel{k: k}, o); err != nil {
			t.Fatal(err)
		}
		o.LocalPath = filepath.Join(p.local, "g")
		if _, err := p.files.Download(t.Context(), &channel{k: k}, o); err != nil {
			t.Fatal(err)
		}
	}
	k.Run("import resource, linecache; hm = get_ipython().history_manager; users = 'this cell is the user\\'s'")
	const rss = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss" // KiB; bytes on darwin
	move(28 << 20)
	before := number(rss)
	move(28 << 20)
	after := number(rss)
	t.Logf("%d KiB, then %d", before, after)
	if runtime.GOOS == "linux" && after-before > 16<<10 {
		t.Errorf("the kernel grew from %d to %d KiB", before, after)
	}
	for _, place := range []string{
		"sum(map(len, In))",
		"sum(len(str(v)) for n, v in list(globals().items()) if n.startswith('_i'))",
		"sum(len(str(v)) for v in linecache.cache.values() if \"'put', '\" in str(v))",
		"sum(len(str(v)) for v in get_ipython().user_ns_hidden.values())",
		"sum(len(row[2]) for row in hm.db_input_cache)",
		"sum(len(row[0]) for row in hm.db.execute('select source from history where session=?', (hm.session_number,)))",
	} {
		if n := number(place); n > 100_000 {
			t.Errorf("%s is %d", place, n)
		}
	}
	if n := number("hm.db_cache_size"); n != 0 {
		t.Errorf("history is kept back: %d", n)
	}
	if n := number("sum('this cell is the user' in s for s in In)"); n < 2 {
		t.Errorf("the user's cells are not in their history: %d", n)
	}
}
