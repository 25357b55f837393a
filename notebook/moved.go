package notebook

import (
	"context"
	"fmt"
	"sync"

	"colab-mcp/bridge"
)

// OtherError says that the tab shows another notebook than it did: its user
// opened one in the same page, which keeps the connection and which no tool
// tells. Nothing was changed in it.
type OtherError struct {
	Was string // the notebook that was connected, "" if not known
}

func (e *OtherError) Error() string {
	was := e.Was
	if was == "" {
		was = "the one before"
	}
	return fmt.Sprintf("the tab shows another notebook than %s: none of its cells is there", was)
}

// sight is the cells a connection was last seen to have. A notebook all of
// whose cells are gone at once is another notebook.
type sight struct {
	mu    sync.Mutex // guards all below
	tab   *bridge.Tab
	ids   map[string]bool
	other bool // it has changed, and nobody has looked at it since
	moved bool // it has changed since the connection was made
}

// see compares what a tab shows with what it showed. look takes the notebook
// that is there for the one that is meant.
func (s *sight) see(tab *bridge.Tab, cells []Cell, look bool) (other bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tab != tab {
		s.tab, s.ids, s.other, s.moved = tab, nil, false, false
	}
	now := map[string]bool{}
	common := false
	for _, c := range cells {
		if c.ID != "" {
			now[c.ID] = true
			common = common || s.ids[c.ID]
		}
	}
	if len(s.ids) > 0 && len(now) > 0 && !common {
		s.other, s.moved = true, true
	}
	other = s.other
	if look {
		s.other = false
	}
	if !other || look {
		s.ids = now
	}
	return other
}

// List reads all cells without outputs, temporary ones included, for somebody
// who goes by what the notebook was last seen to have: *[OtherError] if the tab
// shows another one by now.
func (n *Notebook) List(ctx context.Context, tab *bridge.Tab) ([]Cell, error) {
	all, err := List(ctx, tab)
	if err != nil {
		return nil, err
	}
	if n.sight.see(tab, all, false) {
		return nil, n.other()
	}
	return all, nil
}

// Look takes the notebook that the tab shows for the one that is meant, and
// reports whether it is another one than before.
func (n *Notebook) Look(ctx context.Context, tab *bridge.Tab) (all []Cell, other bool, err error) {
	if all, err = List(ctx, tab); err != nil {
		return nil, false, err
	}
	return all, n.sight.see(tab, all, true), nil
}

func (n *Notebook) other() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &OtherError{Was: n.here()}
}

// Guard is asked before the agent adds a cell, which no id protects: it fails
// with *[OtherError] if the tab shows another notebook than it did.
func (n *Notebook) Guard(ctx context.Context, tab *bridge.Tab) error {
	_, err := n.List(ctx, tab)
	return err
}

// Added notes a cell that the agent or an operation of ours has added, so that
// replacing one by one all cells there were is not taken for another notebook.
func (n *Notebook) Added(tab *bridge.Tab, id string) {
	n.sight.mu.Lock()
	defer n.sight.mu.Unlock()
	if n.sight.tab == tab && n.sight.ids != nil {
		n.sight.ids[id] = true
	}
}

// Other reports whether the tab shows another notebook than when it connected,
// looked at or not: the link it was opened by is not the one of what it shows.
func (n *Notebook) Other() bool {
	n.sight.mu.Lock()
	defer n.sight.mu.Unlock()
	return n.sight.moved
}
