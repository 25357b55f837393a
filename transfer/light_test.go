package transfer_test

import (
	"path/filepath"
	"strings"
	"testing"

	"colab-mcp/notebook/kerneltest"
	"colab-mcp/transfer"
)

// While a transfer is under way IPython is given less to read. The user's cells between two chunks are not touched by that, and afterwards
// everything is as it was.
func TestKernelIsTheUsersAgain(t *testing.T) { // X3, X4
	k := kerneltest.IPython(t)
	p := newPlace(t)
	shown := func(code string) string {
		t.Helper()
		var text strings.Builder
		for _, out := range k.Run(code) {
			text.WriteString(out.Text + out.EName)
		}
		return strings.TrimSpace(text.String())
	}
	const lighter = "[n for o in (ip, ip.kernel, ip.compile) for n in ('transform_cell', '_publish_execute_input', 'get_code_name') if n in vars(o)]"
	k.Run("ip = get_ipython()")
	if got := shown("print(" + lighter + ")"); got != "[]" {
		t.Fatalf("before: %s", got)
	}
	o := transfer.Options{LocalPath: write(t, filepath.Join(p.local, "f"), random(2<<20)), RemotePath: filepath.Join(p.remote, "f")}
	between := false
	o.Progress = func(transfer.Progress) {
		if between {
			return
		}
		between = true
		if got := shown("print(len(" + lighter + "))"); got != "3" {
			t.Errorf("between two chunks %s methods are lighter, want 3", got)
		}
		for code, want := range map[string]string{
			"import asyncio\nawait asyncio.sleep(0)\nprint('awaited')":                          "awaited",
			"x = !echo shell\nprint(x[0])":                                                      "shell",
			"%%capture\nprint('captured')":                                                      "",
			"#@title colab-mcp is what I call this\nprint('titled')":                            "titled",
			"x = '" + strings.Repeat("long", 20_000) + "'\nprint(len(x), len(In[-1]) > 80_000)": "80000 True",
		} {
			if got := shown(code); got != want {
				t.Errorf("%.60q shows %q, want %q", code, got, want)
			}
		}
	}
	if _, err := p.files.Upload(t.Context(), &channel{k: k}, o); err != nil || !between {
		t.Fatal(err)
	}
	holds(t, o.RemotePath, random(2<<20))
	if got := shown("print(" + lighter + ")"); got != "[]" {
		t.Errorf("afterwards: %s", got)
	}
}

// A kernel whose insides are others takes the chunks as they are.
func TestKernelWithOtherInsides(t *testing.T) { // issue 4: whatever kernel is there
	k := kerneltest.IPython(t)
	p := newPlace(t)
	k.Run(`import sys
shell = get_ipython()
shell.compile.get_code_name = type(shell.compile).get_code_name.__get__(shell.compile)  # somebody else's already
class Odd(type(shell)):
    def __setattr__(self, name, value):
        if name == 'transform_cell': raise AttributeError(name)
        super().__setattr__(name, value)
shell.__class__ = Odd`)
	o := transfer.Options{LocalPath: write(t, filepath.Join(p.local, "f"), random(2<<20)), RemotePath: filepath.Join(p.remote, "f")}
	if _, err := p.files.Upload(t.Context(), &channel{k: k}, o); err != nil {
		t.Fatal(err)
	}
	holds(t, o.RemotePath, random(2<<20))
}
