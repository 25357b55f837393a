package bridge

import "fmt"

// causes lists why a tab may not be there yet, the likeliest first. It never
// is empty. b.mu is held.
func (b *Bridge) causes(s *state) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if o := s.opening; o != nil && o.launch != nil {
		add("The browser could not be started from here: %v. Give the link to the user, to be opened in Chrome on this machine; from another machine first run: ssh -L %d:localhost:%d THIS-MACHINE", o.launch, s.id.Port, s.id.Port)
	}
	if s.slot != nil && s.slot.phase != "" {
		add("A tab has connected and has not answered %s yet. If it stays so, reload the tab.", s.slot.phase)
	} else if s.opening != nil && s.opening.spent {
		add("A tab connected and left before it was ready. Call the opener again to open it anew.")
	}
	if n := b.flood.blocked(); n > 0 {
		add("%d connection(s) came without a byte, which is what a blocked browser does: see the permission below.", n)
	}
	if s.slot == nil {
		add("The user has not accepted yet: in the Colab tab, press Connect in the dialog (it is shown at every load).")
	}
	add("Chrome asks for a permission (\"Access other apps and services on this device\", local network access): it must be allowed. If it was blocked once, nothing is asked any more: click the icon left of the address, Site settings, set that permission to Allow, and reload. Safari blocks silently: use Chrome or Firefox.")
	if n := s.refused[wrongToken]; n > 0 {
		add("%d connection(s) came with an old token: a tab from an earlier link. Close it and use the newest one.", n)
	}
	for _, why := range []refusal{wrongOrigin, wrongHost, noUpgrade, noToken} {
		if n := s.refused[why]; n > 0 {
			add("%d connection(s) were refused: %s.", n, why.reason)
		}
	}
	if o := s.opening; o != nil && o.remark != "" {
		add("%s.", o.remark)
	}
	add("The link was opened in another browser or on another machine than this one, or in a browser that is not signed in.")
	add("By hand: open the notebook and use the command palette, \"Connect to a local Colab MCP server\", with the token and port of the link.")
	return list
}
