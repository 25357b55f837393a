package main

import (
	"fmt"
	"strings"
	"time"

	"colab-mcp/state"
)

// openState opens the state directory, or its stand-in in memory, with remarks
// for the status.
func openState(s *settings) (*state.Dir, []string) {
	if s.Ephemeral {
		return state.Memory(), nil
	}
	dir, err := state.Open(s.StateDir)
	if err != nil {
		return state.Memory(), []string{fmt.Sprintf("the state directory cannot be used (%v): nothing is kept when this process ends", err)}
	}
	other := otherInstance(dir)
	switch {
	case other == "":
		return dir, nil
	case s.RotateToken:
		return dir, []string{other, "--rotate-token has left the other one's token as it is: end that process first"}
	}
	return dir, []string{other}
}

// others says which processes have the state directory too, "" if none has.
func others(dir *state.Dir) string {
	pids := dir.Secondaries()
	if len(pids) == 0 {
		return otherInstance(dir)
	}
	return fmt.Sprintf("Other colab-mcp servers run on this machine (processes %s). A tab that was opened by one of them is connected there", strings.Trim(fmt.Sprint(pids), "[]"))
}

// otherInstance says who is primary in the state directory, "" if we are. The
// words stay true when the other one ends.
func otherInstance(dir *state.Dir) string {
	if dir.Primary() {
		return ""
	}
	who := "Another colab-mcp"
	if pid, since, ok := dir.Holder(); ok {
		who += fmt.Sprintf(" (process %d, since %s)", pid, since.Format(time.DateTime))
	}
	return who + " had this state directory when this one started: this one has a port and token of its own and keeps nothing. A tab that was opened by the other one is connected there"
}
