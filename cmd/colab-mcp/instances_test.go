package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"colab-mcp/bridge/localtab/tabtest"
)

// sums is a hash of every file below dir but the second process's own area and
// log, which has its process id in the name.
func sums(t testing.TB, dir string, other int) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if rel == "secondary" || strings.Contains(d.Name(), fmt.Sprint("-", other)) {
			return skip(d)
		}
		if d.IsDir() {
			fmt.Fprintf(&list, "%s/\n", rel)
			return nil
		}
		raw, err := os.ReadFile(path)
		fmt.Fprintf(&list, "%s %x\n", rel, sha256.Sum256(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

func skip(d os.DirEntry) error {
	if d.IsDir() {
		return filepath.SkipDir
	}
	return nil
}

// L12: two processes on one state directory serve both, and the second leaves
// no trace in what is the first's.
func TestInstancesTwo(t *testing.T) {
	dir := portDir(t)
	first := serve(t, dir)
	firstLink := first.ask(oneNotebook)
	firstTab := first.connect(firstLink, tabtest.Knobs{})
	first.call("run_code", args{"code": "print kept"})
	// What the first writes behind its answers must be there before the look.
	untilKept(t, dir, "the notebook", func(c connection) bool { return c.Notebook == oneNotebook })
	before := sums(t, dir, -1)

	second := serve(t, dir)
	r, r1 := second.status(), first.status()
	if r1.Instance != "primary" || r1.Note != "" {
		t.Errorf("the first: %+v", r1)
	}
	if r.Instance != "secondary" || r.Port == r1.Port || r.Port == 0 || r.Previous != "" || !strings.Contains(r.Note, fmt.Sprintf("process %d", r1.PID)) {
		t.Errorf("the second: %+v", r)
	}
	secondLink := second.ask(otherNotebook)
	if tokenOf(t, firstLink) == tokenOf(t, secondLink) {
		t.Error("one token for both")
	}
	secondTab := second.connect(secondLink, tabtest.Knobs{})
	second.call("run_code", args{"code": "print other"})
	second.connectAgain(oneNotebook) // and a new token
	for a, tab := range map[*agent]*tabtest.FarTab{first: firstTab, second: secondTab} {
		if n := len(tab.Calls("run_code_cell")); n != 1 {
			t.Errorf("%s ran %d cells", a.status().Instance, n)
		}
	}
	var list struct{ Jobs []job }
	if second.call("list_jobs", nil).into(&list); len(list.Jobs) != 1 {
		t.Errorf("the second's jobs: %+v", list.Jobs)
	}
	if after := sums(t, dir, r.PID); after != before {
		t.Errorf("the first's files were\n%s\nand are\n%s", before, after)
	}
	second.end()
	if left, err := os.ReadDir(filepath.Join(dir, "secondary")); err != nil || len(left) != 0 {
		t.Errorf("the second left %v, %v", left, err)
	}
	if !first.status().Connected {
		t.Error("the first has lost its tab")
	}

	// The first goes, and a third is what it was.
	first.end()
	third := serve(t, dir)
	third.connect(firstLink, tabtest.Knobs{})
	if r := third.status(); r.Instance != "primary" || r.Notebook != oneNotebook || r.Port != r1.Port {
		t.Errorf("the third: %+v", r)
	}
}

// L10: a wait that failed names the other process, where the tab may be.
func TestInstancesFailedWaitNamesTheOther(t *testing.T) {
	dir := stateDir(t)
	first := serve(t, dir, "--ui-timeout", "100ms")
	second := serve(t, dir, "--ui-timeout", "100ms")
	other := fmt.Sprintf("process %d", first.status().PID)
	names := func(list []string) bool {
		return slices.ContainsFunc(list, func(c string) bool { return strings.Contains(c, other) })
	}
	third := serve(t, dir, "--rotate-token")
	if r := third.status(); !strings.Contains(r.Note, "--rotate-token") {
		t.Errorf("a token that is another's is not replaced, and the note says %q", r.Note)
	}
	var got opened
	for range 2 { // the browser that cannot be started; the wait
		second.call(opener, nil).into(&got)
		if got.Result || !names(got.Causes) {
			t.Errorf("the second: %q", got.Causes)
		}
	}
	other = fmt.Sprintf("processes %d %d)", min(second.status().PID, third.status().PID), max(second.status().PID, third.status().PID))
	if first.call(opener, nil).into(&got); got.Result || !names(got.Causes) {
		t.Errorf("the first: %q", got.Causes)
	}
	second.end()
	third.end()
	other = "colab-mcp server"
	if first.call(opener, nil).into(&got); got.Result || names(got.Causes) {
		t.Errorf("the first, alone again: %q", got.Causes)
	}
}

// L12: a primary that is killed, at whatever moment, leaves what the next one
// takes up, and is primary with.
func TestInstancesKilled(t *testing.T) {
	dir := portDir(t)
	first := serve(t, dir)
	link := first.ask(oneNotebook)
	tab := first.connect(link, tabtest.Knobs{})
	first.call("run_code", args{"code": "print kept"})
	untilKept(t, dir, "the notebook", func(c connection) bool { return c.Notebook == oneNotebook })
	first.kill()
	tab.Close()

	// Each is killed after so many answers: the earliest while it starts, the
	// latest while it has a tab, switches and runs.
	for answers := range 9 {
		a := launchAgent(t, dir, "--browser", "none")
		steps := []func(){
			func() { a.shakeHands("colab-mcp-test") },
			func() {
				if r := a.status(); r.Instance != "primary" || r.Note != "" || r.Previous == "" {
					t.Errorf("after a kill: %+v", r)
				}
			},
			func() { link = a.ask(oneNotebook) },
			func() { a.begin(opener, args{"notebook_url": otherNotebook}) },
			func() {
				// Or this one is taken first, and waits a minute for the user.
				a.until("the switch", func(r connReport) bool { return r.Requested == otherNotebook })
				link = a.ask(oneNotebook)
			},
			func() { tab = a.connect(link, tabtest.Knobs{}) },
			func() { a.begin("run_code", args{"code": "print one"}) },
			func() { a.begin("run_code", args{"code": "hang"}) },
		}
		for _, step := range steps[:answers] {
			step()
		}
		a.kill()
	}

	last := serve(t, dir)
	r := last.status()
	if r.Instance != "primary" || r.Note != "" || r.Previous == "" {
		t.Errorf("the last: %+v", r)
	}
	if bad, _ := filepath.Glob(filepath.Join(dir, "*.bad")); len(bad) != 0 {
		t.Errorf("set aside: %q", bad)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".tmp-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	k := readKept(t, dir)
	if k.Data.Port != r.Port {
		t.Errorf("kept port %d, listening on %d", k.Data.Port, r.Port)
	}
	last.connect(strings.Replace(link, tokenOf(t, link), k.Data.Token, 1), tabtest.Knobs{})
}

// L12: a start that is killed at any moment is no better than one that is
// killed later.
func TestInstancesKilledAtStart(t *testing.T) {
	dir := portDir(t)
	first := serve(t, dir)
	link := first.ask(oneNotebook)
	untilKept(t, dir, "the notebook", func(c connection) bool { return c.Notebook == oneNotebook })
	first.end()
	before := readKept(t, dir)

	// The moment is when it has written so many bytes of log.
	logFile := filepath.Join(dir, "logs", "colab-mcp.log")
	size := func() int64 {
		fi, err := os.Stat(logFile)
		if err != nil {
			return 0
		}
		return fi.Size()
	}
	for step := range int64(6) {
		began := size()
		cmd := exec.Command(binary(t), "--state-dir", dir, "--browser", "none")
		cmd.Env = environment()
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the start", func() bool { return size() >= began+30*step })
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
	}

	last := serve(t, dir)
	if r := last.status(); r.Instance != "primary" || r.Previous != oneNotebook || r.Port != before.Data.Port {
		t.Errorf("the last: %+v", r)
	}
	last.connect(link, tabtest.Knobs{})
}
