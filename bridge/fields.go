package bridge

import "encoding/json"

// Fields cuts a JSON object into its members without decoding them: each is
// the bytes of a value of raw. Line breaks between tokens of raw become
// spaces. It reads gigabytes a second, where encoding/json needs the time of
// the whole answer again.
func Fields(raw json.RawMessage) (map[string]json.RawMessage, error) {
	s := scanner{b: raw}
	s.space()
	if !s.take('{') {
		return nil, s.fail("expected a JSON object")
	}
	fields := map[string]json.RawMessage{}
	err := s.members('}', 1, func(key []byte, from int) error {
		if err := s.value(1); err != nil {
			return err
		}
		var name string
		if err := json.Unmarshal(key, &name); err != nil {
			return err
		}
		fields[name] = s.b[from:s.i]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return fields, s.end()
}

// Items is Fields for the elements of an array.
func Items(raw json.RawMessage) ([]json.RawMessage, error) {
	s := scanner{b: raw}
	s.space()
	if !s.take('[') {
		return nil, s.fail("expected a JSON array")
	}
	items := []json.RawMessage{}
	s.space()
	for done := s.take(']'); !done; {
		s.space()
		from := s.i
		err := s.value(1)
		if err != nil {
			return nil, err
		}
		items = append(items, s.b[from:s.i])
		if done, err = s.next(']'); err != nil {
			return nil, err
		}
	}
	return items, s.end()
}

// end checks that nothing follows.
func (s *scanner) end() error {
	if s.space(); s.i != len(s.b) {
		return s.fail("expected the end")
	}
	return nil
}
