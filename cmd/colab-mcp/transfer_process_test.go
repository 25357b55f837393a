package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"colab-mcp/bridge/localtab/tabtest"
)

// moved is what upload_file and download_file answer.
type moved struct {
	Local     string `json:"local_path"`
	Remote    string `json:"remote_path"`
	Bytes     int    `json:"bytes"`
	SHA256    string `json:"sha256"`
	Chunks    int    `json:"chunks"`
	Resumed   int    `json:"resumed_bytes"`
	Identical bool   `json:"identical"`
}

// A runtime is a folder that a stand-in tab with a real kernel works in. The
// notebook is a file in another.
type runtimeDir struct {
	dir, notebook, python string
}

func newRuntime(t testing.TB) runtimeDir {
	t.Helper()
	return runtimeDir{t.TempDir(), filepath.Join(t.TempDir(), "n.ipynb"), kernelPython(t)}
}

// start follows a link.
func (r runtimeDir) start(a *agent, link string) *tabProcess {
	a.t.Helper()
	p := startTabIn(a.t, r.dir, link, "--notebook", r.notebook, "--python", r.python)
	a.tabIsThere()
	return p
}

// stops has the kernel stand still at the third chunk of a transfer, until its
// end: however late a test cuts the transfer, it is not over.
func (a *agent) stops() {
	a.t.Helper()
	var got struct{ Status string }
	if a.call("run_code", args{"code": `
import hashlib, time
whole, chunks = hashlib.sha256, []
def sha256(*data):
    chunks.extend(len(d) for d in data if len(d) >= 1 << 16)
    while len(chunks) > 2: time.sleep(0.02)
    return whole(*data)
hashlib.sha256 = sha256`}).into(&got); got.Status != "ok" {
		a.t.Fatalf("run_code: %+v", got)
	}
}

// moves waits until a transfer, sent with this progress token, has moved bytes.
// A slow one says before that it is working.
func (a *agent) moves(token int) {
	a.t.Helper()
	waitFor(a.t, "the first bytes", func() bool {
		return slices.ContainsFunc(a.notifications("notifications/progress"), func(m message) bool {
			var p struct {
				ProgressToken int
				Message       string
			}
			return json.Unmarshal(m.Params, &p) == nil && p.ProgressToken == token && strings.Contains(p.Message, " % of ")
		})
	})
}

// noise is a file of random bytes, the same ones for the same seed.
func noise(t testing.TB, path string, size int, seed byte) []byte {
	t.Helper()
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

func sameFile(t testing.TB, path string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %v, %d bytes, equal %v", path, err, len(got), bytes.Equal(got, want))
	}
}

// fileNames are the files of a folder, hidden ones too.
func fileNames(t testing.TB, dir string) string {
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

// noTemporaryCell looks at the tab itself: our outline would hide one.
func noTemporaryCell(a *agent) {
	a.t.Helper()
	if raw := a.call("get_cells", nil).Raw; bytes.Contains(raw, []byte("colab-mcp ·")) {
		a.t.Errorf("a temporary cell is left: %s", raw)
	}
}

// F1, F2: what goes up and down is the same bytes, whatever the name, and
// leaves nothing else on either side.
func TestTransferUpAndDown(t *testing.T) {
	far := newRuntime(t)
	a := serve(t, stateDir(t), "--soft-limit", "10m")
	far.start(a, a.ask(oneNotebook))
	local := t.TempDir()
	for i, name := range []string{"random.bin", `it's "q" $(touch x).csv`, "empty"} {
		data := noise(t, filepath.Join(local, name), []int{3 << 20, 4099, 0}[i], byte(i))
		var up, down moved
		a.call("upload_file", args{"local_path": filepath.Join(local, name)}).into(&up)
		if up.Bytes != len(data) || up.Local != filepath.Join(local, name) || filepath.Base(up.Remote) != name || !filepath.IsAbs(up.Remote) {
			t.Errorf("upload: %+v", up)
		}
		sameFile(t, filepath.Join(far.dir, name), data)
		back := filepath.Join(t.TempDir(), "back")
		a.call("download_file", args{"remote_path": name, "local_path": back}).into(&down)
		if down.Bytes != len(data) || down.SHA256 != up.SHA256 || down.Local != back {
			t.Errorf("download: %+v", down)
		}
		sameFile(t, back, data)
		if fileNames(t, filepath.Dir(back)) != "back" {
			t.Errorf("beside the download: %s", fileNames(t, filepath.Dir(back)))
		}
		if a.call("upload_file", args{"local_path": filepath.Join(local, name)}).into(&up); !up.Identical {
			t.Errorf("the same again: %+v", up)
		}
	}
	const all = `empty it's "q" $(touch x).csv random.bin`
	if fileNames(t, far.dir) != all || fileNames(t, local) != all {
		t.Errorf("in the runtime: %s\nhere: %s", fileNames(t, far.dir), fileNames(t, local))
	}
	noTemporaryCell(a)

	// What is there is not replaced without a word.
	target := filepath.Join(local, "random.bin")
	other := noise(t, target, 1000, 9)
	if res := a.call("download_file", args{"remote_path": "random.bin", "local_path": target}); res.code() != "exists" {
		t.Errorf("download onto a file: %s", res.text())
	}
	sameFile(t, target, other)
	if res := a.call("upload_file", args{"local_path": target, "overwrite": false}); res.code() != "exists" {
		t.Errorf("upload onto a file: %s", res.text())
	}
	var up moved
	if a.call("upload_file", args{"local_path": target}).into(&up); up.Identical {
		t.Errorf("upload onto a file: %+v", up)
	}
	sameFile(t, filepath.Join(far.dir, "random.bin"), other)
}

// F3: a transfer that broke off goes on where it was: after the tab has been
// closed, its kernel with it, and after the server has been killed.
func TestTransferResumes(t *testing.T) {
	far := newRuntime(t)
	state, local := stateDir(t), t.TempDir()
	a := serve(t, state, "--soft-limit", "10m")
	tab := far.start(a, a.ask(oneNotebook))
	const size = 3 << 20
	for i, c := range []struct {
		name string
		tool string
		cut  func()
	}{
		{"upload, tab closed", "upload_file", func() { tab.cmd.Process.Signal(syscall.SIGTERM); tab.end() }},
		{"upload, server killed", "upload_file", func() { a.kill(); tab.end() }},
		{"download, tab closed", "download_file", func() { tab.cmd.Process.Signal(syscall.SIGTERM); tab.end() }},
		{"download, server killed", "download_file", func() { a.kill(); tab.end() }},
	} {
		file := "f" + string(rune('0'+i))
		from, to := filepath.Join(local, file), filepath.Join(far.dir, file)
		if c.tool == "download_file" {
			from, to = to, from
		}
		data := noise(t, from, size, byte(i))
		arguments := args{"local_path": filepath.Join(local, file), "remote_path": file}
		a.stops()
		moving := a.send("tools/call", map[string]any{"name": c.tool, "arguments": arguments, "_meta": map[string]any{"progressToken": i}})
		a.moves(i)
		c.cut()
		if a.cmd.ProcessState == nil {
			if res := moving.answer(); res.code() != "tab_gone" || !strings.Contains(res.text(), "bytes are confirmed") {
				t.Errorf("%s: %s", c.name, res.text())
			}
		}
		if _, err := os.Stat(to); err == nil {
			t.Fatalf("%s: the target is there already", c.name)
		}

		if a.cmd.ProcessState != nil {
			a = serve(t, state, "--soft-limit", "10m")
		}
		tab = far.start(a, a.ask(oneNotebook))
		var got moved
		a.call(c.tool, arguments).into(&got)
		if got.Resumed == 0 || got.Resumed >= size || got.Bytes != size {
			t.Errorf("%s: %+v", c.name, got)
		}
		sameFile(t, to, data)
		waitFor(t, c.name+": the swept cells", func() bool {
			return !bytes.Contains(a.call("get_cells", nil).Raw, []byte("colab-mcp ·"))
		})
	}
	const all = "f0 f1 f2 f3"
	if fileNames(t, local) != all || fileNames(t, far.dir) != all {
		t.Errorf("here: %s\nin the runtime: %s", fileNames(t, local), fileNames(t, far.dir))
	}
}

// S5: what is no plain file, or not to be touched, is refused at once, before
// anything is run, and a refused path reads the same whether or not it exists.
func TestTransferRefusesPaths(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("other special files here")
	}
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret"), "s", 0o600)
	write(t, filepath.Join(dir, ".hidden"), "s", 0o600)
	write(t, filepath.Join(dir, "plain"), "p", 0o600)
	fifo := filepath.Join(dir, "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"out": filepath.Join(outside, "secret"), "dangling": filepath.Join(outside, "none"), "outdir": outside} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		flags []string
		paths map[string]string // path: code
		same  [][2]string       // exists, does not
	}{
		"no list": {nil, map[string]string{
			dir: "invalid", "/dev/zero": "not_allowed", "/proc/self/environ": "not_allowed", fifo: "invalid",
			filepath.Join(dir, ".hidden"): "not_allowed", filepath.Join(dir, "none"): "not_found", "": "invalid",
		}, [][2]string{{filepath.Join(dir, ".hidden"), filepath.Join(dir, ".none")}}},
		"a list": {[]string{"--allow-dir", dir}, map[string]string{
			filepath.Join(outside, "secret"): "not_allowed", filepath.Join(dir, "out"): "not_allowed", filepath.Join(dir, "dangling"): "not_allowed",
			filepath.Join(dir, "outdir", "secret"): "not_allowed", filepath.Join(dir, "..", filepath.Base(outside), "secret"): "not_allowed",
			"/etc/passwd": "not_allowed", fifo: "invalid", dir: "invalid",
		}, [][2]string{{filepath.Join(outside, "secret"), filepath.Join(outside, "none")}, {filepath.Join(dir, "out"), filepath.Join(dir, "dangling")}}},
	} {
		a := serve(t, stateDir(t), c.flags...)
		tab := a.connect(a.ask(oneNotebook), tabtest.Knobs{})
		for path, code := range c.paths {
			if res := a.call("upload_file", args{"local_path": path}); res.code() != code {
				t.Errorf("%s, %q: %s", name, path, res.text())
			}
		}
		for _, pair := range c.same {
			one, two := a.call("upload_file", args{"local_path": pair[0]}).text(), a.call("upload_file", args{"local_path": pair[1]}).text()
			if strings.Replace(one, pair[0], pair[1], 1) != two {
				t.Errorf("%s: there: %s\nnot there: %s", name, one, two)
			}
		}
		if n := len(tab.Calls("add_code_cell")) + len(tab.Calls("run_code_cell")); n != 0 {
			t.Errorf("%s: %d calls have reached the tab", name, n)
		}
	}
}

// E1, E2, E5: what is exported opens in Jupyter, twice the same, and nothing is
// replaced or left behind.
func TestExportOpensInJupyter(t *testing.T) {
	far := newRuntime(t)
	a := serve(t, stateDir(t))
	far.start(a, a.ask(oneNotebook))
	var ids []string
	for _, code := range []string{
		"print('out'); import sys; print('err', file=sys.stderr); {'a': 1}",
		"from IPython.display import HTML, Markdown, display\ndisplay(HTML('<b>x</b>'), Markdown('*y*'))",
		"1/0",
	} {
		ids = append(ids, addCode(a, code))
	}
	a.call("add_text_cell", args{"content": "# Title\n\n- ä"})
	a.call("run_cells", args{"cell_ids": ids, "stop_on_error": false})
	dir := t.TempDir()
	path := filepath.Join(dir, "n.ipynb")
	var got struct {
		Path   string
		Bytes  int
		Cells  int
		Format string `json:"nbformat"`
	}
	a.call("export_notebook", args{"path": path}).into(&got)
	first, err := os.ReadFile(path)
	if err != nil || got.Path != path || got.Bytes != len(first) || got.Cells != 5 || got.Format != "4.5" {
		t.Errorf("export: %+v, %v", got, err)
	}
	check := exec.Command(far.python, "-c", `
import sys, nbformat, nbconvert
nb = nbformat.read(sys.argv[1], as_version=nbformat.NO_CONVERT)
nbformat.validate(nb)
text, _ = nbconvert.HTMLExporter().from_notebook_node(nb)
print(nb.nbformat, nb.nbformat_minor, "ZeroDivisionError" in text, "<b>x</b>" in text, len(nb.cells))
`, path)
	if exec.Command(far.python, "-c", "import nbformat, nbconvert").Run() != nil {
		requireReal(t, "no nbformat and nbconvert (Debian: apt-get install python3-nbformat python3-nbconvert)")
	}
	if out, err := check.CombinedOutput(); err != nil || string(out) != "4 5 True True 5\n" {
		t.Errorf("Jupyter: %v\n%s", err, out)
	}

	if res := a.call("export_notebook", args{"path": path}); res.code() != "exists" {
		t.Errorf("export onto a file: %s", res.text())
	}
	for _, wrong := range []string{filepath.Join(dir, "n.txt"), filepath.Join(dir, "n"), ""} {
		if res := a.call("export_notebook", args{"path": wrong}); res.code() != "invalid" {
			t.Errorf("%q: %s", wrong, res.text())
		}
	}
	if res := a.call("export_notebook", args{"path": filepath.Join(dir, "none", "n.ipynb")}); res.code() != "not_found" {
		t.Errorf("into no folder: %s", res.text())
	}
	a.call("export_notebook", args{"path": path, "overwrite": true}).into(&got)
	sameFile(t, path, first)
	a.call("export_notebook", args{"path": path, "overwrite": true, "include_outputs": false}).into(&got)
	var bare struct {
		Cells []struct{ Outputs []json.RawMessage }
	}
	raw, _ := os.ReadFile(path)
	if err := json.Unmarshal(raw, &bare); err != nil || len(bare.Cells) != 5 || len(bare.Cells[1].Outputs) != 0 {
		t.Errorf("without outputs: %v\n%s", err, raw)
	}
	if fileNames(t, dir) != "n.ipynb" {
		t.Errorf("left behind: %s", fileNames(t, dir))
	}
}

// O5: with / as the working directory, where clients start us, a relative path
// asks for an absolute one.
func TestTransferRelativePaths(t *testing.T) {
	cmd := exec.Command(binary(t), "--ephemeral", "--browser", "none")
	cmd.Dir, cmd.Env = "/", environment()
	a := launch(t, t.TempDir(), cmd)
	a.shakeHands("colab-mcp-test")
	a.connect(a.ask(oneNotebook), tabtest.Knobs{})
	for tool, arguments := range map[string]args{
		"export_notebook": {"path": "n.ipynb"},
		"upload_file":     {"local_path": "f"},
		"download_file":   {"remote_path": "f"}, // to the working directory
	} {
		if res := a.call(tool, arguments); res.code() != "invalid" || !strings.Contains(res.text(), "absolute") {
			t.Errorf("%s: %s", tool, res.text())
		}
	}

	home := startWith(t, nil, "--browser", "none") // in a folder of its own
	home.connect(home.ask(oneNotebook), tabtest.Knobs{})
	var got struct{ Path string }
	for path, want := range map[string]string{"rel.ipynb": "rel.ipynb", "~/home.ipynb": "home.ipynb"} {
		home.call("export_notebook", args{"path": path}).into(&got)
		if !filepath.IsAbs(got.Path) || filepath.Base(got.Path) != want {
			t.Errorf("%s: %q", path, got.Path)
		}
		if _, err := os.Stat(filepath.Join(home.cmd.Dir, want)); err != nil {
			t.Error(err)
		}
	}
}
