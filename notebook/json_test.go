package notebook

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// What is read the fast way is what encoding/json reads.
func TestStringsAreReadAsByEncodingJSON(t *testing.T) {
	for _, raw := range []string{
		`""`, `"plain"`, `"a\nb"`, `"\u0041\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ud83d\ud83d\ude00"`, `"\udead\\"`,
		`"\"\\\/\b\f\n\r\t"`, `"é\u00e9"`, `"x` + "\xff" + `"`,
	} {
		var want string
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		if got, ok := unquote([]byte(raw)); !ok || got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "s")
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		for _, raw := range []string{string(raw), quoted(want)} {
			if got, ok := unquote([]byte(raw)); !ok || got != want || !json.Valid([]byte(raw)) {
				t.Fatalf("%s: got %q, want %q", raw, got, want)
			}
		}
	})
}
