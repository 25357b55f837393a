package notebook

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"colab-mcp/bridge"
)

// Budgets of one result's text. Codex cuts the middle out of what is longer
// than 12,000 bytes and opencode hides a line longer than 50 KiB; the others
// take 40,000 characters and more.
const (
	DefaultBudget = 30_000
	CodexBudget   = 10_000
	LeastBudget   = 1_000 // less has no room for even the frame of a result
)

// Budget is how much text one result may have.
type Budget struct {
	Most int
	Unit
}

// BudgetOf is the budget for the client of that name; override, if it is
// positive, is the user's word.
func BudgetOf(clientName string, override int) Budget {
	b := Budget{Most: DefaultBudget}
	switch name := strings.ToLower(clientName); {
	case strings.Contains(name, "codex"):
		b = Budget{CodexBudget, Bytes}
	case strings.Contains(name, "opencode"):
		b.Unit = Bytes
	}
	if override > 0 {
		b.Most = override
	}
	b.Most = max(b.Most, LeastBudget)
	return b
}

// Fit is the JSON text of a result with these views, within the budget (escapes
// counted). layout makes the result around the views to show, at least
// one if there are any; leftOut is how many of them had to go, the quiet ones
// first. Long texts lose their middle, on line boundaries where lines are
// short; small cells stay whole, large ones share what is left, and the end of
// an exception goes before other text.
//
// keep is asked once for each view that loses text, to keep the whole and name
// it; if it fails or is nil the text is cut all the same and says so. The views
// themselves are not changed. An error means that the frame made by layout
// alone is over the budget (ErrFrame), or does not encode.
func Fit(views []*View, budget Budget, layout func(shown []*View, leftOut int) any, keep func(*View) (ref string, err error)) ([]byte, error) {
	most := max(budget.Most, LeastBudget)
	f := fitting{Unit: budget.Unit, keep: keep, layout: layout, total: len(views), noteRoom: max(most/25, 60)}
	for _, v := range views {
		f.items = append(f.items, f.newItem(v))
	}
	if f.whole() <= most && !f.gapped() {
		f.uncut()
		if b, n, err := f.encode(); err != nil || n <= most {
			return b, err
		}
	}
	f.bare()
	_, n, err := f.encode()
	if err != nil {
		return nil, err
	}
	all := most - n // what the frame leaves for views
	for _, it := range f.items {
		all += it.bare
	}
	for room := all; ; {
		f.cut(room)
		b, n, err := f.encode()
		if err != nil || n <= most {
			return b, err
		}
		// Over by what the shares could not foresee. With little left to
		// share, one view less.
		if room -= n - most + 32; room < all/2 {
			if len(f.items) <= 1 {
				return nil, fmt.Errorf("%w: %d characters, and the budget is %d", ErrFrame, n, most)
			}
			f.items = slices.Delete(f.items, f.quietest(), f.quietest()+1)
			room = all
		}
	}
}

// ErrFrame means that a result is too long without any text of its cells.
var ErrFrame = errors.New("the frame of a result does not fit")

// fitting is one Fit under way.
type fitting struct {
	Unit
	items  []*item
	total  int
	layout func([]*View, int) any
	keep   func(*View) (string, error)

	noteRoom int // of one note
}

// item is a view that may be cut, and what it would cost whole.
type item struct {
	orig  *View
	fixed View // without its texts
	bare  int  // cost of fixed
	texts []*passage
	shown View

	asked bool   // keep was
	ref   string // its answer
	lost  error
}

// passage is one text of a view.
type passage struct {
	name  string // as in Truncated and in Kept
	whole string
	cost  int  // in JSON
	gap   Ends // what whole lacks, if anything
	error bool
	field func(*View) *string
}

// keyCost is what a text costs beside itself: its key and punctuation.
const keyCost = 16

// cutCost is what a view's cut costs beside the text: where the rest is and
// how much.
const cutCost = 160

var passages = []passage{
	{name: "value", error: true, field: func(v *View) *string { return errorField(v, func(e *Error) *string { return &e.Value }) }},
	{name: "traceback", error: true, field: func(v *View) *string { return errorField(v, func(e *Error) *string { return &e.Traceback }) }},
	{name: "stdout", field: func(v *View) *string { return &v.Stdout }},
	{name: "stderr", field: func(v *View) *string { return &v.Stderr }},
	{name: "result", field: func(v *View) *string { return &v.Result }},
}

func errorField(v *View, field func(*Error) *string) *string {
	if v.Error == nil {
		return new(string)
	}
	return field(v.Error)
}

func (f *fitting) newItem(v *View) *item {
	it := &item{orig: v, fixed: *v}
	if v.Error != nil {
		e := *v.Error
		e.Name, e.Code = f.clip(e.Name, 60), f.clip(e.Code, 40)
		it.fixed.Error = &e
	}
	it.fixed.ID = f.clip(v.ID, 64)
	it.fixed.Note = f.clip(v.Note, f.noteRoom)
	for _, p := range passages {
		field := p.field(&it.fixed)
		if *field == "" {
			continue
		}
		p.whole = strings.ToValidUTF8(*field, "\uFFFD")
		p.gap = v.ends[p.name]
		p.cost = f.cost(p.whole) + p.gap.Gap + keyCost
		*field = ""
		it.texts = append(it.texts, &p)
	}
	b, _ := bridge.EncodeJSON(it.fixed)
	it.bare = f.size(b) + 1
	return it
}

func (it *item) cost() (n int) {
	for _, p := range it.texts {
		n += p.cost
	}
	return n
}

// encode lays out the shown views, and measures the result.
func (f *fitting) encode() ([]byte, int, error) {
	shown := make([]*View, len(f.items))
	for i, it := range f.items {
		shown[i] = &it.shown
	}
	b, err := bridge.EncodeJSON(f.layout(shown, f.total-len(shown)))
	return b, f.size(b), err
}

// whole is what all texts cost together.
func (f *fitting) whole() (n int) {
	for _, it := range f.items {
		for _, p := range it.texts {
			n += p.cost - keyCost
		}
	}
	return n
}

// gapped reports whether a text is not all here.
func (f *fitting) gapped() bool { return slices.ContainsFunc(f.items, (*item).gapped) }

func (it *item) gapped() bool {
	return slices.ContainsFunc(it.texts, func(p *passage) bool { return p.gap.Gap > 0 })
}

// uncut shows every text.
func (f *fitting) uncut() {
	for _, it := range f.items {
		it.reset()
		for _, p := range it.texts {
			*p.field(&it.shown) = p.whole
		}
	}
}

// bare shows no text.
func (f *fitting) bare() {
	for _, it := range f.items {
		it.reset()
	}
}

// reset makes the shown view the bare one.
func (it *item) reset() {
	it.shown = it.fixed
	it.shown.Truncated = maps.Clone(it.fixed.Truncated)
	if it.fixed.Error != nil {
		e := *it.fixed.Error
		it.shown.Error = &e
	}
}

// quietest is the place of the view that says least; of equals the last.
func (f *fitting) quietest() int {
	at := 0
	for i, it := range f.items {
		if loudness(it) <= loudness(f.items[at]) {
			at = i
		}
	}
	return at
}

func loudness(it *item) int {
	v := it.orig
	switch {
	case v.Error != nil || v.Status == StatusError:
		return 4
	case v.Status == StatusRunning:
		return 3
	case len(it.texts) > 0 || v.Images > 0 || v.Note != "":
		return 2
	case v.Status != StatusOK && v.Status != StatusSkipped:
		return 1
	}
	return 0
}
