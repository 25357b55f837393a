package notebook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"colab-mcp/bridge"
)

// Ran is what one run of one cell gave.
type Ran struct {
	Outputs []Output
	Result  json.RawMessage // the tab's whole answer, as it came
	Count   *int            // execution count after the run, nil if not known
	Took    time.Duration

	// NotRun says that the tab answered at once and the cell did not run: the
	// "Run anyway" dialog is open, the machine is still starting, the user is
	// not signed in, or the kernel is stuck.
	NotRun bool
	// Restarted says that the kernel has started anew since the last run here.
	// It is said once: see Unsaid.
	Restarted bool
	// Died says that the kernel went away under this very cell. It is not run
	// again: that would kill the next one too.
	Died bool
}

// checkBytes is the answer above which a run is not read back for its count:
// that would bring it all again.
const checkBytes = 1 << 20

// Run runs one cell and finds out whether it ran. before is the cell as it was
// just read, with its count. The caller holds the turn. No context: a run that
// was sent is waited for until it is answered or the tab is gone.
func (n *Notebook) Run(tab *bridge.Tab, before Cell) (Ran, error) {
	began := time.Now()
	raw, err := tab.Run(bridge.RunCodeCell, fmt.Appendf(nil, `{"cellId":%s}`, quoted(before.ID)), nil)
	ran := Ran{Result: raw, Took: time.Since(began)}
	var said *bridge.RPCError
	if errors.As(err, &said) {
		return ran, &bridge.ToolError{Tool: bridge.RunCodeCell, Text: said.Message}
	}
	if err != nil {
		return ran, err
	}
	payload, err := Payload(bridge.RunCodeCell, raw)
	if err != nil {
		return ran, err
	}
	if ran.Outputs, err = DecodeOutputs(payload); err != nil {
		return ran, err
	}
	n.check(tab, before, &ran)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.here()
	if !ran.NotRun {
		n.runs.put(before.ID, before.Source, ran.Outputs)
		ran.Restarted, n.anew = ran.Restarted || n.anew, false
	}
	return ran, nil
}

// check reads the cell back. What cannot be read leaves the question open,
// never the run failed.
func (n *Notebook) check(tab *bridge.Tab, before Cell, ran *Ran) {
	if len(ran.Outputs) > 0 && len(ran.Result) > checkBytes {
		n.uncounted(ran.Outputs)
		return
	}
	after, ok, err := Find(context.Background(), tab, before.ID, before.Index)
	if err != nil || !ok {
		n.uncounted(ran.Outputs)
		return
	}
	ran.Count = after.ExecutionCount
	silent := len(ran.Outputs) == 0
	switch {
	case strings.TrimSpace(before.Source) == "": // a blank cell runs without being counted
	case !after.HasCount: // this tab does not say
	case after.ExecutionCount == nil:
		n.uncountedEnd(tab, ran, silent)
	case silent && before.ExecutionCount != nil && *before.ExecutionCount == *after.ExecutionCount && n.below(tab, *after.ExecutionCount):
		ran.NotRun = true
	default:
		ran.Restarted = n.counted(after.ExecutionCount)
	}
}

// atOnce is how soon a tab answers that does not run the cell at all.
const atOnce = 10 * time.Second

// uncountedEnd finds out what it means that a run ended without a count.
func (n *Notebook) uncountedEnd(tab *bridge.Tab, ran *Ran, silent bool) {
	last := n.lastCount()
	count, asked := 0, false
	if last > 0 {
		count, asked = n.next(tab)
	}
	switch {
	case asked && count > last && silent && ran.Took <= atOnce:
		// The kernel is the one it was and did not take the cell: ipykernel
		// drops what comes right behind an exception.
		ran.NotRun = true
	case asked && count > last: // it ran, by all signs but the count
	case last > 0, silent && ran.Took > atOnce:
		ran.Died = true // counts were given, and are not any more
		n.forgetRuntime()
	default:
		ran.NotRun = silent
	}
}

// below reports whether the kernel has not come to a count yet, for a cell
// that shows the same one as before its run: a notebook saved with its counts
// does that on a fresh kernel too. A kernel that cannot be asked has, for
// running a cell twice is the worse mistake.
func (n *Notebook) below(tab *bridge.Tab, count int) bool {
	next, asked := n.next(tab)
	return asked && next <= count
}

// next is the execution count that the kernel gives to a temporary cell, 0 for
// one that takes none.
func (n *Notebook) next(tab *bridge.Tab) (count int, asked bool) {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	s, err := n.Scratch(ctx, tab, "", "#@title colab-mcp · does the runtime run?")
	if err != nil {
		return 0, false
	}
	defer s.Drop(ctx) // what cannot be deleted now is swept later
	if _, err := tab.Run(bridge.RunCodeCell, fmt.Appendf(nil, `{"cellId":%s}`, quoted(s.ID())), nil); err != nil {
		return 0, false
	}
	c, ok, err := Find(ctx, tab, s.ID(), s.cell.Index)
	if err != nil || !ok {
		return 0, false
	}
	if c.ExecutionCount == nil {
		return 0, true
	}
	return *c.ExecutionCount, true
}

// counted notes an execution count and reports whether it went back, which
// only a new kernel's does.
func (n *Notebook) counted(count *int) (restarted bool) {
	if count == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.here()
	restarted = *count <= n.last
	n.last = *count
	return restarted
}

// uncounted notes a run whose count was not read. It had one, the next: without
// this, a fresh kernel's counts could come up to the last one unnoticed.
func (n *Notebook) uncounted(outs []Output) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.here()
	if len(outs) > 0 && n.last > 0 { // a cell that said nothing may not have run
		n.last++
	}
}

// Unsaid has the next run's result say that the kernel started anew, for a run
// that has no result to say it in.
func (n *Notebook) Unsaid(ran Ran) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.here()
	n.anew = n.anew || ran.Restarted || ran.Died
}

// lastCount is the last execution count of this runtime, 0 if none was seen.
func (n *Notebook) lastCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.here()
	return n.last
}

// forgetRuntime expects a new one.
func (n *Notebook) forgetRuntime() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = 0
}
