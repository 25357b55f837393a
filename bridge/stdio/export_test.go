package stdio

// Kept returns how many entries the table of calls holds.
func (t *Transport) Kept() int {
	calls := t.conn.Load().calls
	calls.mu.Lock()
	defer calls.mu.Unlock()
	return max(len(calls.open), len(calls.bySDK), len(calls.byExtra))
}
