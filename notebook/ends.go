package notebook

// endBytes is how much of each end of a kept text a result may show.
const endBytes = 64 << 10

// Ends is what a result needs of a kept text: all of a short one, both ends of
// a long one.
type Ends struct {
	Text string `json:"text"`
	At   int    `json:"at,omitempty"`  // where in Text something is left out
	Gap  int    `json:"gap,omitempty"` // how many bytes, 0 = nothing
}

// Ends are the ends of the texts that a view shows, by name.
func (k Kept) Ends() map[string]Ends {
	ends := map[string]Ends{}
	for _, p := range passages {
		s := k.Streams[p.name]
		if s == "" {
			continue
		}
		e := Ends{Text: s}
		if len(s) > 2*endBytes {
			head, tail := runeStart(s, endBytes), runeStart(s, len(s)-endBytes)
			e = Ends{Text: s[:head] + s[tail:], At: head, Gap: tail - head}
		}
		ends[p.name] = e
	}
	return ends
}

// Fill gives a view the texts it was kept without. What is left out of them is
// counted as cut, wherever else they are cut.
func (v *View) Fill(ends map[string]Ends) {
	if v.Error != nil {
		e := *v.Error
		v.Error = &e
	}
	v.ends = ends
	for _, p := range passages {
		if e, ok := ends[p.name]; ok && !(p.error && v.Error == nil) {
			*p.field(v) = e.Text
		}
	}
}
