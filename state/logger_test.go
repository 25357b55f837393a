package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const token = "SECRETTOKEN+/\"7 é" // needs escaping in addresses, JSON and log lines

type stringer struct{ s string }

func (s stringer) String() string { return s.s }

type valuer struct{ s string }

func (v valuer) LogValue() slog.Value { return slog.GroupValue(slog.String("inner", v.s)) }

type nested struct {
	Link string
	More map[string]any
}

// S4
func TestNoSecretInAnyKindOfValueAtAnyLevel(t *testing.T) {
	link := "https://colab.research.google.com/drive/x#mcpProxyToken=" + url.QueryEscape(token) + "&mcpProxyPort=1"
	asJSON, err := json.Marshal(nested{token, map[string]any{"k": []string{token}}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(string(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	values := []any{
		token, link, "Bearer " + token, errors.New("dial " + link), fmt.Errorf("wrapped: %w", errors.New(token)), stringer{token}, &stringer{token},
		valuer{token}, nested{token, map[string]any{"k": token}}, []string{token}, []byte(token), asJSON, json.RawMessage(asJSON), again, string(again), strconv.Quote(string(again)), url.QueryEscape(link), url.QueryEscape(url.PathEscape(token)),
		&url.URL{Scheme: "ws", Host: "localhost", RawQuery: "access_token=" + url.QueryEscape(token)}, slog.GroupValue(slog.String("g", token)),
		map[string]string{token: "as key"}, struct{ E error }{errors.New(token)}, url.PathEscape(token),
	}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		for i, v := range values {
			var out bytes.Buffer
			var r Redactor
			log, flush := NewLogger(&out, slog.LevelDebug, &r)
			r.Add("") // would be everywhere
			r.Add(token)
			log.Log(t.Context(), level, "message with "+token, "value", v)
			log.With("with", v).WithGroup("group").Log(t.Context(), level, fmt.Sprintf("%s %q %+v", v, token, link), token, "as name")
			flush()
			for _, hidden := range []string{"SECRET", "é", "%C3%A9", "TOKEN+"} {
				if strings.Contains(out.String(), hidden) {
					t.Errorf("value %d (%T) at %v: %s", i, v, level, out.String())
				}
			}
			if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), redacted) {
				t.Errorf("value %d (%T): %d lines: %s", i, v, n, out.String())
			}
		}
	}
}

// S4, S6: also tokens nobody has told us.
func TestUnknownTokensAreSeenByTheirPlace(t *testing.T) {
	var r Redactor
	for in, want := range map[string]string{
		"x#mcpProxyToken=OLD&mcpProxyPort=1":        "x#mcpProxyToken=[redacted]&mcpProxyPort=1",
		"ws://localhost:1/?access_token=OLD":        "ws://localhost:1/?access_token=[redacted]",
		"?ACCESS_TOKEN%3DOLD&x=1":                   "?ACCESS_TOKEN%3D[redacted]&x=1",
		"n.ipynb?token=OLD#x":                       "n.ipynb?token=[redacted]#x",
		`{"access_token":"OLD","a":1}`:              `{"access_token":"[redacted]","a":1}`,
		`{\"mcpProxyToken\": \"OLD\"}`:              `{\"mcpProxyToken\": \"[redacted]\"}`,
		`"a#mcpProxyToken=OLD\u0026mcpProxyPort=1"`: `"a#mcpProxyToken=[redacted]\u0026mcpProxyPort=1"`,
		"Authorization: Bearer OLD.x-y_z==":         "Authorization: Bearer [redacted]",
		"the token is set":                          "the token is set",
		`{"progressToken":"7","_meta":{}}`:          `{"progressToken":"7","_meta":{}}`,
		"token_max_age_days=30 rotate-token":        "token_max_age_days=30 rotate-token",
		"bearer of bad news":                        "bearer [redacted] bad news", // rather too much
	} {
		if got := r.Redact(in); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// S4: whatever the secret and however often it was wrapped.
func TestSecretIsFoundUnderAnyEncodings(t *testing.T) {
	encoders := map[string]func(string) string{
		"json":  func(s string) string { b, _ := json.Marshal(s); return string(b) },
		"quote": strconv.Quote,
		"query": url.QueryEscape,
		"path":  url.PathEscape,
		"ascii": strconv.QuoteToASCII,
	}
	names := slices.Sorted(maps.Keys(encoders))
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[ -pr-~é€]{1,20}`).Draw(t, "secret")
		var r Redactor
		r.Add(secret)
		s := "qqq" + secret + "qqq" // no encoding and no secret has a q
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "encoders") {
			s = encoders[name](s)
		}
		if got := strings.Split(r.Redact(s), "qqq"); len(got) != 3 || strings.ReplaceAll(got[1], redacted, "") != "" {
			t.Fatalf("%s leaves %q", s, got)
		}
	})
}

// S4: a cut through a secret shows no half of it.
func TestLongLineIsCutOutsideRunesAndSecrets(t *testing.T) {
	const secret = "SECRETSECRETSECRET"
	var r Redactor
	r.Add(secret)
	for shift := range 2 * len(secret) {
		for _, edge := range []int{lineSize, lineSize + lineEdge} {
			var out strings.Builder
			line := strings.Repeat("é", (edge-2*len(secret)+shift)/2) + strings.Repeat("x", shift%2) + secret + strings.Repeat("é", lineSize) + "\n"
			if n, err := r.Writer(&out).Write([]byte(line)); n != len(line) || err != nil {
				t.Fatalf("Write: %d, %v", n, err)
			}
			got := out.String()
			if strings.Contains(got, "SEC") || !utf8.ValidString(got) {
				t.Errorf("shift %d: ends %q", shift, got[len(got)-80:])
			}
			if len(got) < lineSize-len(secret) || len(got) > lineSize+50 || !strings.HasSuffix(got, " bytes more\n") {
				t.Errorf("shift %d: %d bytes ending %q", shift, len(got), got[len(got)-40:])
			}
		}
	}
}

func TestSecretsMayBeAddedMeanwhile(t *testing.T) {
	var out bytes.Buffer
	var r Redactor
	log, _ := NewLogger(&out, slog.LevelInfo, &r)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			secret := fmt.Sprintf("secret-number-%d", i)
			r.Add(secret)
			r.Add(secret + "-longer")
			log.Info("new", "value", secret, "other", secret+"-longer")
		})
	}
	wg.Wait()
	if s := out.String(); strings.Contains(s, "secret-number") || strings.Contains(s, "-longer") {
		t.Error(s)
	}
}

// Issue 5.5: 10,000 connects with a bad token.
func TestRepeatedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, flush := NewLogger(&out, slog.LevelDebug, new(Redactor))
		lines := func() []string {
			defer out.Reset()
			return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		}
		for i := range 10_000 {
			log.With("n", i).Warn("connect refused", "reason", "bad token", "port", i)
		}
		log.Warn("connect refused", "reason", "bad origin")
		if got := lines(); len(got) != repeatBurst+1 || !strings.Contains(got[repeatBurst], "bad origin") {
			t.Errorf("%d lines, the last is %s", len(got), got[len(got)-1])
		}
		time.Sleep(repeatWindow)
		log.Info("anything")
		got := lines()
		if len(got) != 2 || !strings.Contains(got[0], `level=WARN msg="… 9,980 more like this" line="connect refused" reason="bad token"`) ||
			!strings.Contains(got[1], "anything") {
			t.Errorf("after the window: %q", got)
		}
		for range repeatBurst + 1 {
			log.Warn("connect refused", "reason", "bad token")
		}
		if got := lines(); len(got) != repeatBurst {
			t.Errorf("a new window has %d lines", len(got))
		}
		flush()
		flush()
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "… 1 more like this") {
			t.Errorf("at the end: %q", got)
		}
		for range 1000 {
			log.Debug("frame")
		}
		if got := lines(); len(got) != 1000 {
			t.Errorf("%d debug lines", len(got))
		}
	})
}

func TestLimiterIsBounded(t *testing.T) {
	var out bytes.Buffer
	log, _ := NewLogger(&out, slog.LevelInfo, new(Redactor))
	l := log.Handler().(limitHandler).l
	for i := range 10 * repeatKeys {
		log.Info(fmt.Sprint("message ", i))
	}
	if len(l.seen) > repeatKeys+1 {
		t.Errorf("%d messages are remembered", len(l.seen))
	}
	if n := strings.Count(out.String(), "\n"); n != repeatKeys+repeatBurst {
		t.Errorf("%d lines", n)
	}
}

func TestTimesSortAsText(t *testing.T) {
	var out bytes.Buffer
	log, _ := NewLogger(&out, slog.LevelInfo, new(Redactor))
	east := time.FixedZone("east", 5*3600)
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, east)
	if err := log.Handler().Handle(t.Context(), slog.NewRecord(at, slog.LevelInfo, "m", 0)); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, "time=2026-01-01T22:00:00.000000Z ") {
		t.Error(got)
	}
	if log.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("the level is not kept")
	}
}

func TestGroupedNumbers(t *testing.T) {
	for n, want := range map[int]string{1: "1", 999: "999", 1000: "1,000", 9998: "9,998", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
