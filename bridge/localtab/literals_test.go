package localtab

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// C9: however a long string is written, it arrives as encoding/json reads it.
func TestLongLiteralsAreReadAsShortOnes(t *testing.T) {
	pieces := []string{
		"a", "é", "\u2028", "😀", "'", "/", `\"`, `\\`, `\/`, `\n`, `\t`, `\b`, `\f`, `\r`, `\u0000`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, "<&>", "{}[]:,",
		"\x80", "\x01", `\x`, // of these the last two are no JSON
	}
	rapid.Check(t, func(t *rapid.T) {
		unit := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 6).Draw(t, "unit"), "")
		long := `"` + strings.Repeat(unit, longLiteral/len(unit)+1) + `"`
		frame := fmt.Sprintf(`{"first":"short","second":%s,"list":[%s,"%s"],"last":"\""}`, long, long, unit)

		short, lifted := liftLiterals([]byte(frame))
		var want, got map[string]any
		wrong := json.Unmarshal([]byte(frame), &want)
		err := json.Unmarshal(short, &got)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%v, read at once: %v", err, wrong)
		}
		if err != nil {
			return
		}
		if len(short) > 2*longLiteral {
			t.Errorf("nothing was lifted out of %d bytes", len(frame))
		}
		got["second"] = lifted.text(got["second"].(string))
		list := got["list"].([]any)
		list[0] = lifted.text(list[0].(string))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q is read as another text", unit)
		}
	})
}

func TestShortFramesAreNotLookedAt(t *testing.T) {
	frame := []byte(`{"content":"` + strings.Repeat("x", longLiteral-100) + `"}`)
	if short, lifted := liftLiterals(frame); &short[0] != &frame[0] || lifted.text("0") != "0" || lifted.text("") != "" {
		t.Errorf("%d bytes became %d", len(frame), len(short))
	}
}

// I2: a frame that ends inside of a string is left to the decoder.
func TestCutFramesLiftNothing(t *testing.T) {
	for _, end := range []string{"", `\`, `\\\"`} {
		frame := []byte(`{"content":"` + strings.Repeat("x", longLiteral) + end)
		if short, _ := liftLiterals(frame); len(short) != len(frame) {
			t.Errorf("%q: %d bytes became %d", end, len(frame), len(short))
		}
	}
}

func FuzzLiftLiterals(f *testing.F) {
	f.Add([]byte(`{"a":"x\n","b":["y"]}`))
	f.Add([]byte(`"\\\"" "`))
	f.Fuzz(func(t *testing.T, part []byte) {
		frame := append([]byte(strings.Repeat(" ", longLiteral)), part...)
		short, _ := liftLiterals(frame)
		if json.Valid(frame) && !json.Valid(short) {
			t.Errorf("%q is JSON no more", part)
		}
	})
}
