package bridge

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// O4
func TestBrowserCommandIsSplitAsAShellDoes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{`firefox`, []string{"firefox"}},
		{"  firefox\t--new-tab \n", []string{"firefox", "--new-tab"}},
		{`"/opt/My Chrome/chrome" --profile-directory="Profile 3"`, []string{"/opt/My Chrome/chrome", "--profile-directory=Profile 3"}},
		{`/opt/My\ Chrome/chrome --app`, []string{"/opt/My Chrome/chrome", "--app"}},
		{`a 'b "c" \d' e`, []string{"a", `b "c" \d`, "e"}},
		{`a "b 'c'" d`, []string{"a", "b 'c'", "d"}},
		{`a "\"\\\$" "\x"`, []string{"a", `"\$`, `\x`}},
		{"a \"\\`\"", []string{"a", "`"}},
		{`a '' ""`, []string{"a", "", ""}},
		{`a'b'"c"d`, []string{"abcd"}},
		{`a "$HOME" x`, []string{"a", "$HOME", "x"}},
		{`a $(touch x) ; b|c && d > e # f *`, []string{"a", "$(touch", "x)", ";", "b|c", "&&", "d", ">", "e", "#", "f", "*"}},
		{"a b\\\nc", []string{"a", "bc"}},
		{"a \"b\\\nc\"", []string{"a", "bc"}},
		{`a é\ ü`, []string{"a", "é ü"}},
		{``, nil},
		{` `, nil},
	} {
		got, err := splitCommand(c.in, true)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s splits into %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

// O4
func TestBackslashIsLiteralWherePathsHaveIt(t *testing.T) {
	for in, want := range map[string][]string{
		`C:\Chrome\chrome.exe --x`:               {`C:\Chrome\chrome.exe`, "--x"},
		`"C:\Program Files\chrome.exe" "a b\"`:   {`C:\Program Files\chrome.exe`, `a b\`},
		`\\server\share\b.exe '--dir=Profile 3'`: {`\\server\share\b.exe`, "--dir=Profile 3"},
	} {
		got, err := splitCommand(in, false)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s splits into %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestBadBrowserCommandIsRefusedAtOnce(t *testing.T) {
	for in, want := range map[string]string{
		`chrome "a`:     `opening " quote`,
		`chrome 'a`:     `opening ' quote`,
		`chrome 'a\'b'`: `opening ' quote`,
		"   ":           "names no program",
		`""`:            "names no program",
		`'' x`:          "names no program",
		"a\x00b":        "zero byte",
	} {
		l, err := NewLauncher(in)
		if err == nil || !strings.Contains(err.Error(), want) || l != nil {
			t.Errorf("NewLauncher(%q) = %v, %v; want an error with %q", in, l, err, want)
		}
	}
}

// O5
func TestBrowserInTheHomeDirectory(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip("no home directory here")
	}
	for in, want := range map[string]string{
		"~/bin/chrome x":    filepath.Join(home, "bin", "chrome"),
		" ~/'my chrome'":    filepath.Join(home, "my chrome"),
		"'~/chrome'":        "~/chrome",
		"/opt/~/bin/chrome": "/opt/~/bin/chrome",
	} {
		got, err := browserCommand(in)
		if err != nil || got[0] != want {
			t.Errorf("%s starts %q, %v; want %s", in, got, err, want)
		}
	}
}

// O1
func TestNoneStartsNothing(t *testing.T) {
	l, err := NewLauncher("none")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Open(t.Context(), "https://example.com/"); !errors.Is(err, ErrNoBrowser) {
		t.Errorf("Open: %v, want ErrNoBrowser", err)
	}
}
