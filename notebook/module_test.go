package notebook_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"colab-mcp/notebook"
	"colab-mcp/notebook/kerneltest"
)

var echo = notebook.NewModule("echo", `
@export
def echo(data=None, **params):
    if data is None:
        return params
    return Data(params, data)

@export
def fail(how):
    if how == "file":
        open("/nonexistent/file")
    if how == "refuse":
        raise Refusal("exists", "it is there")
    if how == "interrupt":
        raise KeyboardInterrupt()
    sys.exit("bye")

@export
def noisy():
    sys.stdout.write("\r 50%|####")
    sys.stderr.write("a warning without an end")
    return "quiet"
`)

// kernels runs a test in every Python we have.
func kernels(t *testing.T, test func(t *testing.T, k *kerneltest.Kernel)) {
	t.Run("plain", func(t *testing.T) { test(t, kerneltest.Plain(t, "")) })
	t.Run("ipykernel", func(t *testing.T) { test(t, kerneltest.IPython(t)) })
}

func runner(k *kerneltest.Kernel) func(context.Context, string) ([]notebook.Output, error) {
	return func(_ context.Context, code string) ([]notebook.Output, error) { return k.Run(code), nil }
}

func print(t *testing.T, k *kerneltest.Kernel, expr string) string {
	t.Helper()
	var text strings.Builder
	for _, out := range k.Run("print(" + expr + ")") {
		text.WriteString(out.Text + out.EName + out.EValue)
	}
	return strings.TrimSpace(text.String())
}

func TestModuleIsInstalledOnceAndCalled(t *testing.T) { // design: our Python, F2
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		params := map[string]any{"name": "it's \"q\"\n$(touch x).csv", "n": 1, "none": nil, "ünï": "\u2028'''\\"}
		code, marker, err := echo.Call("", "echo", params)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := notebook.ParseReply(k.Run(code), marker); !errors.Is(err, notebook.ErrModuleMissing) {
			t.Fatalf("a fresh kernel: %v, want ErrModuleMissing", err)
		}
		for range 2 { // the first installs
			var got map[string]any
			if err := echo.Do(t.Context(), runner(k), "title", "echo", params, &got); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got["name"], got["n"], got["none"], got["ünï"]) != fmt.Sprint(params["name"], 1, nil, params["ünï"]) {
				t.Errorf("came back as %q", got)
			}
		}
		if n := print(t, k, "len([m for m in __import__('sys').modules if m.startswith('_colab_mcp_echo')])"); n != "1" {
			t.Errorf("%s modules in sys.modules", n)
		}
		k.Restart()
		if _, err := notebook.ParseReply(k.Run(code), marker); !errors.Is(err, notebook.ErrModuleMissing) {
			t.Errorf("after a restart: %v, want ErrModuleMissing", err)
		}
	})
}

func TestModuleLeavesNothingBehind(t *testing.T) { // X4, design: our Python
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		k.Run("_watch = lambda: sorted(n for n in globals() if not n.startswith('_i'))")
		k.Run("6 * 7")
		k.Run("_seen = _watch(); _seen = _watch()")
		secret := []byte(strings.Repeat("chunk", 1000))
		code, marker, err := echo.InstallAndCall("", "echo", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			outs := k.Run(code)
			if len(outs) != 1 || outs[0].Type != notebook.Stream || strings.Count(outs[0].Text, "\n") != 1 {
				t.Fatalf("outputs %+v, want the reply and nothing else", outs)
			}
			if _, err := notebook.ParseReply(outs, marker); err != nil {
				t.Fatal(err)
			}
			code, marker, err = echo.CallData("upload x · 3 %", "echo", nil, secret)
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := print(t, k, "_seen == _watch() or set(_watch()) ^ set(_seen)"); got != "True" {
			t.Errorf("names that came or went: %s", got)
		}
		if !strings.Contains(print(t, k, "'In' in globals()"), "True") {
			return
		}
		if got := print(t, k, "_"); got != "42" {
			t.Errorf("_ is %s", got)
		}
		literal := base64.StdEncoding.EncodeToString(secret)[:200]
		for _, place := range []string{
			"[s for s in In if 'colab-mcp' in s or '_colab_mcp' in s][:-1]",
			"[n for n, v in list(globals().items()) if n.startswith('_i') and isinstance(v, str) and '" + literal + "' in v]",
			"[n for n, v in __import__('linecache').cache.items() if '" + literal + "' in str(v)]",
			"[n for n, v in list(getattr(__import__('linecache'), '_ipython_cache', {}).items()) if '" + literal + "' in str(v)]",
		} {
			if got := print(t, k, strings.ReplaceAll(place, literal, literal[:100]+"'+'"+literal[100:])); got != "[]" {
				t.Errorf("%.60s…: %.300s", place, got)
			}
		}
	})
}

func TestCallFailuresAreReplies(t *testing.T) { // a raised error would drop the cells queued behind
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		for how, want := range map[string]notebook.PythonError{
			"file":      {Name: "FileNotFoundError", Value: "[Errno 2] No such file or directory: '/nonexistent/file'", Code: "ENOENT"},
			"refuse":    {Name: "Refusal", Value: "it is there", Code: "exists"},
			"interrupt": {Name: "KeyboardInterrupt"},
			"exit":      {Name: "SystemExit", Value: "bye"},
		} {
			var got *notebook.PythonError
			err := echo.Do(t.Context(), runner(k), "", "fail", map[string]string{"how": how}, nil)
			if !errors.As(err, &got) || got.Name != want.Name || got.Value != want.Value || got.Code != want.Code {
				t.Errorf("%s: %#v, want %+v", how, err, want)
			} else if !strings.Contains(strings.Join(got.Traceback, ""), "in fail") {
				t.Errorf("%s: traceback %q", how, got.Traceback)
			}
		}
		if err := echo.Do(t.Context(), runner(k), "", "no_such_function", nil, nil); err == nil {
			t.Error("an unknown function was called")
		}
	})
}

func TestReplyBetweenOtherOutput(t *testing.T) { // R2, design: our Python
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		k.Run(`import sys, threading
stop = threading.Event()
def chatter():
    while not stop.wait(0.0001):
        sys.stdout.write('colab-mcp:fake:{"ok":1}\\n')
threading.Thread(target=chatter, daemon=True).start()
def print(*args): raise RuntimeError('not yours')`)
		var got string
		for range 20 {
			if err := echo.Do(t.Context(), runner(k), "", "noisy", nil, &got); err != nil || got != "quiet" {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		k.Run("stop.set(); del print")
		// A stream that the user's code has put in the kernel's place.
		k.Run("import sys, io; sys.stdout = io.StringIO()")
		if err := echo.Do(t.Context(), runner(k), "", "noisy", nil, &got); err != nil || got != "quiet" {
			t.Errorf("with stdout redirected: %q, %v", got, err)
		}
	})
}

func TestDataTravelsBothWays(t *testing.T) { // F2: all byte values
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		if err := echo.Do(t.Context(), runner(k), "", "echo", nil, nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range [][]byte{{}, {0}, all, bytes.Repeat(all, 8000)} {
			code, marker, err := echo.CallData("", "echo", nil, want)
			if err != nil {
				t.Fatal(err)
			}
			_, got, err := notebook.ParseReplyData(k.Run(code), marker)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %d came back, %v", len(want), len(got), err)
			}
		}
	})
}

func TestTitleIsOneCommentLine(t *testing.T) { // F2
	for title, want := range map[string]string{
		"":                               "",
		"\n\r\t":                         "",
		"colab-mcp · upload a.csv":       "#@title colab-mcp · upload a.csv\n",
		"a\nimport os\rb\u2028c\x00d":    "#@title a import os b c d\n",
		`x {display-mode: "form"}`:       "#@title x (display-mode: \"form\")\n",
		"\u202egpj.exe\xff":              "#@title gpj.exe�\n",
		strings.Repeat("ü", 500):         "#@title " + strings.Repeat("ü", 119) + "…\n",
		"-*- coding: latin-1 -*-":        "#@title -*- coding: latin-1 -*-\n",
		"%%bash":                         "#@title %%bash\n",
		"really?":                        "#@title really?\n",
		"it's '''quoted''' \\ at end \\": "#@title it's '''quoted''' \\ at end \\\n",
	} {
		code, _, err := echo.Call(title, "echo", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(code, "getattr("); got != want {
			t.Errorf("title %q gives %q, want %q", title, got, want)
		}
	}
	kernels(t, func(t *testing.T, k *kerneltest.Kernel) {
		for _, title := range []string{"-*- coding: latin-1 -*- é", "%%bash", "really?", "back \\", "a\nb"} {
			if err := echo.Do(t.Context(), runner(k), title, "echo", nil, nil); err != nil {
				t.Errorf("title %q: %v", title, err)
			}
		}
	})
}

func stream(name, text string) notebook.Output {
	return notebook.Output{Type: notebook.Stream, Name: name, Text: text}
}

// line is a reply as module.py writes it.
func line(head string) string {
	return fmt.Sprintf("colab-mcp:KEY:%08x%s\n", crc32.ChecksumIEEE([]byte(head)), head)
}

func TestParseReply(t *testing.T) {
	const m = "colab-mcp:KEY:"
	failed := notebook.Output{Type: notebook.ErrorOutput, EName: "MemoryError"}
	for name, c := range map[string]struct {
		outs []notebook.Output
		want string
		err  error
	}{
		"whole":                 {[]notebook.Output{stream("stdout", line(`{"ok": 1}`))}, "1", nil},
		"null":                  {[]notebook.Output{stream("stdout", line(`{"ok": null}`))}, "null", nil},
		"split":                 {[]notebook.Output{stream("stdout", "x\rcolab-"), stream("stderr", "w"), stream("stdout", line(`{"ok": 1}`)[6:20]), stream("stdout", line(`{"ok": 1}`)[20:]+"more")}, "1", nil},
		"stream without a name": {[]notebook.Output{stream("", line(`{"ok": 1}`))}, "1", nil},
		"of another call":       {[]notebook.Output{stream("stdout", `colab-mcp:YEK:{"ok": 1}`+"\n")}, "", notebook.ErrNoReply},
		"on stderr":             {[]notebook.Output{stream("stderr", line(`{"ok": 1}`))}, "", notebook.ErrNoReply},
		"none":                  {nil, "", notebook.ErrNoReply},
		"cut":                   {[]notebook.Output{stream("stdout", strings.TrimSpace(line(`{"ok": 1}`)))}, "", notebook.ErrNoReply},
		"cut JSON":              {[]notebook.Output{stream("stdout", line(`{"ok": `))}, "", notebook.ErrNoReply},
		"damaged data":          {[]notebook.Output{stream("stdout", strings.TrimSpace(line(`{"ok": 1}`))+"\tAA*A\n")}, "", notebook.ErrNoReply},
		"no value":              {[]notebook.Output{stream("stdout", line("{}"))}, "", notebook.ErrNoReply},
		"another digit":         {[]notebook.Output{stream("stdout", strings.Replace(line(`{"ok": 1}`), "1}", "17}", 1))}, "", notebook.ErrNoReply},
		"missing":               {[]notebook.Output{stream("stdout", line(`{"missing":true}`))}, "", notebook.ErrModuleMissing},
		"an exception before":   {[]notebook.Output{stream("stdout", "x"), failed}, "", &notebook.PythonError{Name: "MemoryError"}},
		"an exception after":    {[]notebook.Output{stream("stdout", line(`{"ok": 1}`)), failed}, "1", nil},
	} {
		got, err := notebook.ParseReply(c.outs, m)
		var wantPy, gotPy *notebook.PythonError
		if errors.As(c.err, &wantPy) {
			if !errors.As(err, &gotPy) || gotPy.Name != wantPy.Name {
				t.Errorf("%s: %v, want %v", name, err, c.err)
			}
		} else if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %s, %v; want %s, %v", name, got, err, c.want, c.err)
		}
	}
}

// FuzzParseReply cuts a reply in pieces between other output, and feeds rubbish.
func FuzzParseReply(f *testing.F) {
	f.Add("before\r", "after", `{"a": [1, "\u2028"]}`, []byte("data"), uint16(5), false)
	f.Add("", "", `1`, []byte{}, uint16(0), true)
	f.Add("colab-mcp:", "colab-mcp:KEY:{\n", `"x"`, []byte{255}, uint16(20), false)
	f.Fuzz(func(t *testing.T, before, after, value string, data []byte, cut uint16, drop bool) {
		const marker = "colab-mcp:KEY:"
		if !json.Valid([]byte(value)) || strings.ContainsAny(value, "\n\t") || strings.Contains(before, "colab-mcp:KEY:") || strings.HasSuffix(marker, before) && before != "" {
			return
		}
		line := strings.TrimSpace(line(`{"ok":`+value+"}")) + "\t" + base64.StdEncoding.EncodeToString(data) + "\n"
		at := int(cut) % len(line)
		first, second := before+line[:at], line[at:]+after
		if drop { // the rest never came
			second = ""
		}
		got, gotData, err := notebook.ParseReplyData([]notebook.Output{stream("stdout", first), stream("stderr", after), stream("stdout", second)}, marker)
		if drop {
			if err == nil {
				t.Fatalf("half a reply was taken: %s", got)
			}
			return
		}
		if err != nil || !bytes.Equal(gotData, data) || strings.TrimSpace(string(got)) != strings.TrimSpace(value) {
			t.Fatalf("got %s %q %v, want %s %q", got, gotData, err, value, data)
		}
	})
}
