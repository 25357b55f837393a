package notebook

import (
	"fmt"
	"slices"
)

// cut leaves out views until the rest has a place each within room, and gives
// every text its share.
func (f *fitting) cut(room int) {
	f.leaveOut(room * 4 / 5)
	for _, it := range f.items {
		room -= it.bare
	}
	// First the ends of exceptions, from a third of the room, then all.
	whole, urgent := make([]int, len(f.items)), make([]int, len(f.items))
	for i, it := range f.items {
		whole[i] = it.cost()
		for _, p := range it.texts {
			if p.error {
				urgent[i] += p.cost
			}
		}
	}
	for i, n := range twice(whole, urgent, room, 3) {
		f.items[i].fit(n, f)
	}
}

// leaveOut drops the quietest views until what each needs at least is within
// room.
func (f *fitting) leaveOut(room int) {
	need := 0
	order := make([]int, len(f.items))
	for i, it := range f.items {
		order[i] = i
		need += it.least()
	}
	slices.SortFunc(order, func(a, b int) int {
		if d := loudness(f.items[a]) - loudness(f.items[b]); d != 0 {
			return d
		}
		return b - a
	})
	gone := map[int]bool{}
	for _, i := range order {
		if need <= room || len(gone) == len(f.items)-1 {
			break
		}
		gone[i] = true
		need -= f.items[i].least()
	}
	kept := f.items[:0:0]
	for i, it := range f.items {
		if !gone[i] {
			kept = append(kept, it)
		}
	}
	f.items = kept
}

func (it *item) least() int { return it.bare + min(it.cost(), cutCost) }

// fit writes the view at a cost of at most grant beside its bare one.
func (it *item) fit(grant int, f *fitting) {
	it.reset()
	whole, urgent := make([]int, len(it.texts)), make([]int, len(it.texts))
	for i, p := range it.texts {
		whole[i] = p.cost
		if p.error {
			urgent[i] = p.cost
		}
	}
	if it.cost() > grant || it.gapped() {
		grant -= it.rest(f)
	}
	for i, n := range twice(whole, urgent, grant, 2) {
		p := it.texts[i]
		text, omitted := p.fit(n, it.ref, f.Unit)
		*p.field(&it.shown) = text
		if omitted > 0 {
			if it.shown.Truncated == nil {
				it.shown.Truncated = map[string]int{}
			}
			it.shown.Truncated[p.name] += omitted
		}
	}
}

// rest has the whole kept, says where, and returns what saying so costs.
func (it *item) rest(f *fitting) int {
	if !it.asked && f.keep != nil {
		it.asked = true
		it.ref, it.lost = f.keep(it.orig)
	}
	if it.lost != nil {
		it.ref = ""
		it.shown.AddNote(f.clip(fmt.Sprintf("the omitted text could not be kept: %v", it.lost), f.noteRoom))
	}
	if it.ref != "" {
		it.shown.OutputRef = it.ref
	}
	cost := f.cost(it.shown.OutputRef) + f.cost(it.shown.Note) - f.cost(it.fixed.Note) + 48
	for _, p := range it.texts {
		cost += len(p.name) + 16
	}
	return cost
}

// fit is the passage at a cost of at most grant, and how many bytes are omitted.
func (p *passage) fit(grant int, ref string, u Unit) (string, int) {
	if p.cost <= grant && p.gap.Gap == 0 {
		return p.whole, 0
	}
	head := 2 // fifths
	if p.error {
		head = 1
	}
	return u.cutMiddle(p.whole, p.gap, grant-keyCost, head, func(omitted int) string {
		if ref == "" {
			return fmt.Sprintf("… %s omitted …", bytesText(omitted))
		}
		return fmt.Sprintf(`… %s omitted, read_output {"output_ref":%q,"stream":%q} …`, bytesText(omitted), ref, p.name)
	})
}

// twice shares room over demands: first 1/part of it over the urgent ones,
// then the rest over all that is unmet.
func twice(demands, urgent []int, room, part int) []int {
	got := share(urgent, max(room, 0)/part)
	unmet := make([]int, len(demands))
	for i := range demands {
		unmet[i] = demands[i] - got[i]
		room -= got[i]
	}
	for i, n := range share(unmet, room) {
		got[i] += n
	}
	return got
}

// share grants each demand in full, or the same to all that want more than
// that, so that the grants add up to at most room.
func share(demands []int, room int) []int {
	order := make([]int, len(demands))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return demands[a] - demands[b] })
	got := make([]int, len(demands))
	room = max(room, 0)
	for i, at := range order {
		got[at] = min(demands[at], room/(len(order)-i))
		room -= got[at]
	}
	return got
}
