package stdio

import "encoding/json"

// SDKKeeps reports whether the SDK's form of an id is the id itself.
func SDKKeeps(raw string) bool {
	i, legal := parseID(json.RawMessage(raw))
	_, exact := i.sdk()
	return legal && exact
}

// KeptBytes returns how many bytes of results the table of calls holds.
func (t *Transport) KeptBytes() int {
	calls := t.conn.Load().calls
	calls.mu.Lock()
	defer calls.mu.Unlock()
	n := 0
	for _, c := range calls.byExtra {
		n += len(c.result)
	}
	return n
}

// Kept returns how many entries the table of calls holds.
func (t *Transport) Kept() int {
	calls := t.conn.Load().calls
	calls.mu.Lock()
	defer calls.mu.Unlock()
	return max(len(calls.open), len(calls.bySDK), len(calls.byExtra))
}
