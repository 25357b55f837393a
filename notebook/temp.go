package notebook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"colab-mcp/bridge"
)

// Temp is a temporary cell that may still be about. Its fields are kept on
// disk.
type Temp struct {
	Notebook string   `json:"notebook"`
	ID       string   `json:"id,omitempty"`     // "" if the tab left before it said so
	Before   []string `json:"before,omitempty"` // ids that were there before it, while ID is not known
	Sums     []string `json:"sums,omitempty"`   // hashes of the sources it may have
	Module   bool     `json:"module,omitempty"` // its sources are calls of our modules: known by their form

	user *bridge.Tab // the connection whose operation uses it now
	nth  int         // tells it from another that looks the same
}

func sum(source string) string {
	h := sha256.Sum256([]byte(source))
	return hex.EncodeToString(h[:])
}

// is reports whether c is this cell and nobody has changed it since.
func (t Temp) is(c Cell) bool {
	if t.ID != "" && t.ID != c.ID || t.ID == "" && slices.Contains(t.Before, c.ID) {
		return false
	}
	return t.Module && calls(c.Source) || slices.Contains(t.Sums, sum(c.Source))
}

// Scratch is the one temporary cell of an operation: at the end of the
// notebook, re-used for all its steps, deleted when it is over unless somebody
// changed it meanwhile. It is for one goroutine at a time.
type Scratch struct {
	n    *Notebook
	tab  *bridge.Tab
	cell Cell
	temp Temp
}

// Scratch adds a temporary cell with a first source. language is python, r or
// julia; "" is python.
//
// A source that calls one of our modules is known by its form, and so must be
// the ones that follow it: megabytes of a file's chunk are not hashed.
func (n *Notebook) Scratch(ctx context.Context, tab *bridge.Tab, language, source string) (*Scratch, error) {
	if err := tab.Needs(bridge.AddCodeCell, bridge.RunCodeCell, bridge.DeleteCell); err != nil {
		return nil, err // before there is a cell that cannot be run or deleted
	}
	all, err := n.List(ctx, tab)
	if err != nil {
		return nil, err
	}
	if language == "" {
		language = "python"
	}
	n.mu.Lock()
	t := Temp{Notebook: n.here(), user: tab, Module: calls(source)}
	n.mu.Unlock()
	if !t.Module {
		t.Sums = []string{sum(source)}
	}
	for _, c := range all {
		t.Before = append(t.Before, c.ID)
	}
	n.note(nil, &t)
	payload, err := ask(ctx, tab, bridge.AddCodeCell, fmt.Appendf(nil, `{"cellIndex":%d,"language":%s,"code":%s}`, len(all), quoted(language), quoted(source)))
	if err != nil {
		if !mayHaveHappened(err) {
			n.note(&t, nil)
		}
		return nil, err
	}
	var added struct {
		ID string `json:"newCellId"`
	}
	if err := json.Unmarshal(payload, &added); err != nil || added.ID == "" {
		return nil, fmt.Errorf("%w: add_code_cell: no newCellId", ErrShape)
	}
	named := t
	named.ID, named.Before = added.ID, nil
	n.note(&t, &named)
	n.Added(tab, named.ID)
	return &Scratch{n: n, tab: tab, temp: named, cell: Cell{Index: len(all), Type: Code, ID: added.ID, Source: source}}, nil
}

// mayHaveHappened tells failures after which the notebook may have changed.
func mayHaveHappened(err error) bool {
	var unknown *bridge.UnknownError
	var silent *bridge.SilentError
	return errors.As(err, &unknown) || errors.As(err, &silent) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// ID is the cell's id.
func (s *Scratch) ID() string { return s.cell.ID }

// Set replaces the cell's source. It needs no turn.
func (s *Scratch) Set(ctx context.Context, source string) error {
	if source == s.cell.Source {
		return nil
	}
	if !s.temp.Module || !calls(source) {
		next := s.temp
		next.Sums = []string{sum(s.cell.Source), sum(source)}
		s.n.note(&s.temp, &next)
		s.temp = next
	}
	_, err := ask(ctx, s.tab, bridge.UpdateCell, updateArgs(s.cell.ID, source))
	if err == nil {
		s.cell.Source = source
	}
	return err
}

// updateArgs are the arguments of update_cell, in one piece of memory.
func updateArgs(id, source string) []byte {
	args := append(make([]byte, 0, len(source)+200), `{"cellId":`...)
	args = append(appendQuoted(args, id), `,"content":`...)
	return append(appendQuoted(args, source), '}')
}

// Run runs the cell as it is now. The caller holds the turn.
func (s *Scratch) Run() (Ran, error) {
	before := s.cell
	ran, err := s.n.Run(s.tab, before)
	s.n.mu.Lock()
	s.n.runs.drop(before.ID)
	s.n.mu.Unlock()
	if err == nil {
		s.cell.ExecutionCount = ran.Count
	}
	return ran, err
}

// Unsaid is the notebook's, for a run whose result nobody is shown.
func (s *Scratch) Unsaid(ran Ran) { s.n.Unsaid(ran) }

// RunPlain runs the cell and does not read it back: the reply of our own code
// says that it ran, and its source and output may be megabytes. The caller
// holds the turn.
func (s *Scratch) RunPlain() ([]Output, time.Duration, error) {
	began := time.Now()
	raw, err := s.tab.Run(bridge.RunCodeCell, fmt.Appendf(nil, `{"cellId":%s}`, quoted(s.cell.ID)), nil)
	took := time.Since(began)
	if err != nil {
		return nil, took, err
	}
	payload, err := Payload(bridge.RunCodeCell, raw)
	if err != nil {
		return nil, took, err
	}
	outs, err := DecodeOutputs(payload)
	s.n.uncounted(outs)
	return outs, took, err
}

// Cell is the cell as it was last seen.
func (s *Scratch) Cell() Cell { return s.cell }

// Drop deletes the cell, unless somebody has changed it. What cannot be
// deleted now is swept when the notebook is connected again.
func (s *Scratch) Drop(ctx context.Context) error {
	_, err := s.n.remove(ctx, s.tab, s.temp, s.cell.Index)
	return err
}

// Release keeps the cell: it is the user's now.
func (s *Scratch) Release() { s.n.note(&s.temp, nil) }

// remove deletes a temporary cell and forgets it.
func (n *Notebook) remove(ctx context.Context, tab *bridge.Tab, t Temp, at int) (deleted bool, err error) {
	c, ok, err := find(ctx, tab, t.ID, at, false) // its outputs may be more than a connection takes
	if err != nil {
		return false, err
	}
	if ok && t.is(c) {
		_, err := ask(ctx, tab, bridge.DeleteCell, fmt.Appendf(nil, `{"cellId":%s}`, quoted(t.ID)))
		if err != nil {
			return false, fmt.Errorf("the temporary cell %s could not be deleted: %w", t.ID, err)
		}
	}
	n.note(&t, nil)
	return ok, nil
}

// note replaces what is remembered of a temporary cell: nil before is a new
// one, nil after a forgotten one.
func (n *Notebook) note(before, after *Temp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if before != nil {
		n.temps = slices.DeleteFunc(slices.Clone(n.temps), func(t Temp) bool { return t.nth == before.nth })
	} else {
		n.noted++
		after.nth = n.noted
	}
	if after != nil {
		n.temps = append(slices.Clone(n.temps), *after)
	}
	if n.Keep != nil {
		n.Keep(n.temps)
	}
}

// Hidden reports whether a cell is a temporary one of ours, which outlines,
// runs and exports do not show.
func (n *Notebook) Hidden(c Cell) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.temps, func(t Temp) bool { return t.ID != "" && t.ID == c.ID })
}

// Sweep deletes the temporary cells that a lost tab left in this notebook, and
// forgets those that are not there or were changed. Those that an operation on
// this tab uses are let be.
func (n *Notebook) Sweep(ctx context.Context, tab *bridge.Tab) error {
	n.mu.Lock()
	var mine []Temp
	here := n.here()
	for _, t := range n.temps {
		if t.Notebook == here && t.user != tab {
			mine = append(mine, t)
		}
	}
	n.mu.Unlock()
	if len(mine) == 0 {
		return nil
	}
	all, err := List(ctx, tab)
	if err != nil {
		return err
	}
	n.mu.Lock()
	used := slices.DeleteFunc(slices.Clone(n.temps), func(t Temp) bool { return t.user != tab })
	n.mu.Unlock()
	// What an operation on this tab has added by now may look like a lost cell whose id is not known.
	all = slices.DeleteFunc(all, func(c Cell) bool {
		return slices.ContainsFunc(used, func(t Temp) bool { return t.is(c) })
	})
	var failed error
	for _, t := range mine {
		i := slices.IndexFunc(all, t.is)
		if i < 0 {
			n.note(&t, nil)
			continue
		}
		old := t
		t.ID, t.Before = all[i].ID, nil
		n.note(&old, &t)
		if _, err := n.remove(ctx, tab, t, -1); err != nil {
			failed = err
		} else if n.Log != nil {
			n.Log.Info("temporary cell swept", "cell", t.ID)
		}
	}
	return failed
}

// Tab is the connection the cell was added over.
func (s *Scratch) Tab() *bridge.Tab { return s.tab }
