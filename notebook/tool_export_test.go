package notebook

import (
	"errors"
	"strings"
	"testing"
)

// X4: temporary cells may come and go while a notebook is read; cells of the
// user may not. A letter is a cell, a capital one a temporary one.
func TestAnExportIsOfOneStateOfTheNotebook(t *testing.T) {
	read := func(list, then string) (shown string, err error) {
		w := walk{}
		for _, id := range strings.Split(list, "") {
			w.list = append(w.list, Cell{ID: id})
			w.temporary = append(w.temporary, id < "a")
		}
		for _, id := range strings.Split(then, "") {
			show, err := w.next(Cell{ID: id}, id < "a" && strings.Contains("TU", id)) // S is forgotten by then
			if err != nil {
				return shown, err
			}
			if show {
				shown += id
			}
		}
		return shown, w.end()
	}
	for _, c := range []struct{ list, then, shown string }{
		{"abc", "abc", "abc"},
		{"abTU", "abTU", "ab"},
		{"abTU", "ab", "ab"}, // deleted meanwhile
		{"abS", "abS", "ab"}, // deleted and forgotten after it was read
		{"abTc", "abc", "abc"},
		{"abTc", "abUTc", "abc"}, // a new one
		{"ab", "aUb", "ab"},
	} {
		if shown, err := read(c.list, c.then); shown != c.shown || err != nil {
			t.Errorf("%s, then %s: %q, %v", c.list, c.then, shown, err)
		}
	}
	for list, then := range map[string]string{"abc": "ab", "ab": "ba", "abd": "abcd", "aTb": "aT", "a": "b"} {
		if shown, err := read(list, then); !errors.Is(err, ErrMoved) {
			t.Errorf("%s, then %s: %q, %v, want ErrMoved", list, then, shown, err)
		}
	}
}
