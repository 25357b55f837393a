package notebook

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// checkPlain fails if s is not what a model may be shown (R1).
func checkPlain(t interface {
	Helper()
	Fatalf(string, ...any)
}, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Fatalf("%q is not UTF-8", s)
	}
	if i := strings.IndexFunc(s, isControl); i >= 0 {
		t.Fatalf("a control character at %d of %q", i, s)
	}
}

// R1, R2
func TestTerminalShowsWhatIsLeftOnTheScreen(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"R1 up and erase", "\x1b[A\x1b[2Khi", "hi"},
		{"R2 carriage returns", " 0%\r 50%\r100%\n", "100%\n"},
		{"CRLF is a newline", "a\r\nb\r\n", "a\nb\n"},
		{"a shorter text leaves the tail", "hello\rHE", "HEllo"},
		{"backspace moves, and does not erase", "abc\b\bX", "aXc"},
		{"backspace stops at the margin", "\b\b\bx", "x"},
		{"colours", "\x1b[1;31mred\x1b[0m \x1b[38;5;208mx\x1b[m", "red x"},
		{"true colour with colons", "\x1b[38:2::1:2:3mx", "x"},
		{"title and bell", "\x1b]0;title\x07text", "text"},
		{"hyperlink", "\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"a lost end of a title", "\x1b]0;never ends\ntext", "\ntext"},
		{"device control string", "\x1bPq#0;2\x1b\\x", "x"},
		{"8-bit sequences", "a\u009b31mb\u009d0;t\u009cc\u0085d", "abc\nd"},
		{"lone ESC", "a\x1bé\x1b", "aé"},
		{"two-byte sequences", "\x1b(Ba\x1b=b\x1b>", "ab"},
		{"private modes", "\x1b[?25lx\x1b[?25h", "x"},
		{"an unfinished sequence", "x\x1b[12", "x"},
		{"an aborted sequence", "x\x1b[12\x18y", "xy"},
		{"newline within a sequence", "a\x1b[\nKb", "a\nb"},
		{"erase to the right", "hello\rab\x1b[K", "ab"},
		{"erase to the left", "hello\x1b[3D\x1b[1K", "   lo"},
		{"erase the line", "hello\x1b[2K\rx", "x"},
		{"blanks over a bar", "100%|###|\r         \rdone\n", "done\n"},
		{"blanks that were printed stay", "a  \nb", "a  \nb"},
		{"erase below", "a\nb\nc\x1b[2A\x1b[J", "a"},
		{"clear and home", "one\ntwo\n\x1b[H\x1b[2Jthree", "three"},
		{"home and print over", "one\ntwo\x1b[Hone!", "one!\ntwo"},
		{"position", "abc\ndef\x1b[1;2HX", "aXc\ndef"},
		{"column", "abcdef\x1b[2GX", "aXcdef"},
		{"save and restore", "ab\x1b7cd\x1b8X", "abXd"},
		{"left and right", "abc\x1b[2DX\x1b[CY", "aXcY"},
		{"previous and next line", "a\nb\x1b[FA\x1b[EB", "A\nB"},
		{"up stops at the top", "a\x1b[99Ab", "ab"},
		{"right leaves blanks", "a\x1b[3Cb", "a   b"},
		{"tabs stay", "a\tb\n", "a\tb\n"},
		{"other controls", "a\x00b\x07c\x0ed\x7fe", "abcde"},
		{"reset", "abc\x1bcd", "d"},
		{"invalid UTF-8", "a\xffb\xc3", "a\uFFFDb\uFFFD"},
		{"blank lines", "\n\na\n\n", "\n\na\n\n"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := plain(c.in); got != c.want {
				t.Errorf("%q became %q, want %q", c.in, got, c.want)
			}
		})
	}
}

// R2: the redraws of tqdm, one bar.
func TestAHundredThousandUpdatesAreOneLine(t *testing.T) {
	var term Terminal
	for i := range 100_000 {
		fmt.Fprintf(&term, "\r%3d%%|%-40s| %d/100000 [00:%02d<00:00, 999.9it/s]",
			i/1000, strings.Repeat("█", i/2500), i+1, i%60)
	}
	term.WriteString("\n")
	got := term.String()
	if len(got) >= 1024 || strings.Count(got, "\n") != 1 || !strings.Contains(got, "100000/100000") {
		t.Errorf("%d bytes: %q", len(got), clip(got, 300))
	}
}

// R2: the redraws of tqdm, nested bars (position=1), read while they run.
func TestNestedBarsKeepTheirLines(t *testing.T) {
	var term Terminal
	for i := range 3 {
		fmt.Fprintf(&term, "\router %d/3", i)
		for j := range 4 {
			fmt.Fprintf(&term, "\n\rinner %d/4\x1b[A", j)
			if got, want := term.String(), fmt.Sprintf("outer %d/3\ninner %d/4", i, j); got != want {
				t.Fatalf("live: %q, want %q", got, want)
			}
		}
	}
	term.WriteString("\router 3/3\n\n")
	if got, want := term.String(), "outer 3/3\ninner 3/4\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMemoryOfOneLineIsBounded(t *testing.T) {
	var term Terminal
	term.WriteString("\x1b[999999999B\x1b[999999999Cx\x1b[999999999;999999999Hy")
	if n := len(term.String()); n > 2*(screenRows+screenColumn) {
		t.Errorf("two runes far away became %d bytes", n)
	}
	var long Terminal
	for range 1000 {
		long.WriteString(strings.Repeat("x", 1000))
	}
	if got := long.String(); len(got) != 1_000_000 || strings.Trim(got, "x") != "" {
		t.Errorf("a line of 1,000,000 became %d bytes", len(got))
	}
	if n := cap(long.line().cells); n > 2*longestRow {
		t.Errorf("the row holds %d cells", n)
	}
}

var terminalText = rapid.StringOfN(rapid.OneOf(
	rapid.SampledFrom([]rune("ab█é\t\n\n\r\b\x1b[]0123456789;?ABCDEFGHJKmhs\x07\\\u009b\u009d")),
	rapid.Rune(),
), 0, 200, -1)

// R1, R7
func TestTerminalDoesNotCareHowTextIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := terminalText.Draw(t, "text")
		var whole, pieces Terminal
		whole.WriteString(s)
		for rest := s; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			pieces.Write([]byte(rest[:n]))
			rest = rest[n:]
			checkPlain(t, pieces.String())
		}
		if a, b := whole.String(), pieces.String(); a != b {
			t.Fatalf("whole %q, in pieces %q", a, b)
		}
	})
}

// R7: text without sequences is not touched.
func TestPlainTextPassesUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.RuneFrom([]rune("a \tΩ█\n\U0001F600"))).Draw(t, "text")
		var term Terminal
		term.WriteString(s)
		if got := term.String(); got != s {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

func FuzzTerminal(f *testing.F) {
	f.Add([]byte("\x1b[A\x1b[2Khi"))
	f.Add([]byte(" 0%\r 50%\r100%\n"))
	f.Add([]byte("\x1b]0;t\x07\x1b[999;999H\xc3\x1b[1K\x1b[J"))
	f.Add([]byte("a\x1b7\nb\x1b[2J\x1b8c\x1b[3X"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var term Terminal
		term.Write(in)
		got := term.String()
		checkPlain(t, got)
		if again := plain(got); again != got {
			t.Fatalf("%q is not stable: %q", got, again)
		}
		var cut Terminal
		cut.Write(in[:len(in)/2])
		cut.Write(in[len(in)/2:])
		if cut.String() != got {
			t.Fatalf("cut in two: %q, want %q", cut.String(), got)
		}
	})
}

func BenchmarkTerminal(b *testing.B) {
	lines := strings.Repeat("epoch 12: loss 0.123 accuracy 0.987\n", 30_000)
	bars := strings.Repeat("\r 42%|████████      | 42/100 [00:01<00:02, 30.1it/s]", 20_000)
	for _, c := range []struct{ name, text string }{{"lines", lines}, {"bars", bars}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				var t Terminal
				t.WriteString(c.text)
				_ = t.String()
			}
		})
	}
}
