package bridge

// Rotate retires the token as a switch of notebooks does, whatever the tab is
// at.
func (b *Bridge) Rotate() {
	var slot *session
	b.update(func(s *state) { slot = s.rotate() })
	if slot != nil {
		b.retire(slot, "the token was replaced")
	}
}
