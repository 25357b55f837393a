package jobs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// step is one thing that an agent, its user or the network does.
type step struct {
	Do      string
	N       int // which cell, call or job
	Seconds int
}

var steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
	return step{
		Do:      rapid.SampledFrom([]string{"notebook", "cells", "code", "code", "deadline", "relay", "leave", "cancel", "status", "read", "drop", "wait", "wait", "wait"}).Draw(t, "do"),
		N:       rapid.IntRange(0, 5).Draw(t, "n"),
		Seconds: rapid.SampledFrom([]int{0, 1, 3, 10, 44, 45, 60}).Draw(t, "seconds"),
	}
}), 1, 25)

// Whatever happens in whatever order: never two runs in flight, every job ends
// in one status, no temporary cell remains, every answer belongs to its
// question, and nothing runs twice.
func TestAnyOrderOfEvents(t *testing.T) { // issue 3
	rapid.Check(t, func(rt *rapid.T) {
		list := steps.Draw(rt, "steps")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			wrong = play(t, list)
		})
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}

// asked is a call on its way and what its answer must say.
type asked struct {
	*pending
	ids  []string // of run_cells
	code string   // tag of run_code
	left bool     // the caller did not wait
}

// stage is what the steps act on.
type stage struct {
	d     *desk
	ids   []string
	tags  map[string]string // by cell id
	calls []*asked
	tabs  []*tabtest.FarTab
	wrong []string
}

func (s *stage) bad(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func play(t *testing.T, list []step) []string {
	d := newDesk(t, setup{})
	defer d.close()
	d.open()
	s := &stage{d: d, tags: map[string]string{}}
	s.ids = d.fill("sleep 2\nprint cell-0", "print cell-1", "sleep 50\nprint cell-2", "pass")
	for i, id := range s.ids {
		s.tags[id] = fmt.Sprintf("cell-%d\n", i)
	}
	s.tags[s.ids[3]] = ""
	kernel := d.far().Kernel
	armed := withDeadlines(kernel)
	for _, one := range list {
		s.do(one)
	}
	for _, c := range s.calls {
		c.wait()
		s.check(c)
	}
	time.Sleep(30 * time.Minute)
	if r := d.call("get_cells", with{}); r.err != nil { // re-opens
		s.bad("the notebook does not come back: %v", r.err)
		return s.wrong
	}
	time.Sleep(time.Minute)
	s.after(kernel)
	if armed.left() {
		s.bad("a deadline is left armed")
	}
	return s.wrong
}

func (s *stage) do(one step) {
	d := s.d
	if tab := d.far(); !slices.Contains(s.tabs, tab) {
		s.tabs = append(s.tabs, tab)
	}
	tag := fmt.Sprintf("code-%d\n", len(s.calls))
	code := fmt.Sprintf("sleep %d\nprint %s", one.Seconds, tag)
	switch one.Do {
	case "notebook":
		s.calls = append(s.calls, &asked{pending: d.start("run_notebook", with{})})
	case "cells":
		ids := []string{s.ids[one.N%4], s.ids[(one.N+1)%4]}
		s.calls = append(s.calls, &asked{pending: d.start("run_cells", with{"cell_ids": ids, "background": one.Seconds == 0}), ids: ids})
	case "code":
		s.calls = append(s.calls, &asked{pending: d.start("run_code", with{"code": code}, true), code: tag})
	case "deadline":
		s.calls = append(s.calls, &asked{pending: d.start("run_code", with{"code": code, "timeout_s": 30}), code: tag})
	case "relay":
		s.calls = append(s.calls, &asked{pending: d.start("run_code_cell", with{"cellId": s.ids[one.N%4]})})
	case "leave":
		if len(s.calls) > 0 {
			c := s.calls[one.N%len(s.calls)]
			c.left = true
			c.cancel()
		}
	case "cancel", "status":
		if jobs := d.jobs.List(); len(jobs) > 0 {
			tool := map[string]string{"cancel": "cancel_job", "status": "job_status"}[one.Do]
			if r := d.call(tool, with{"job_id": jobs[one.N%len(jobs)].ID}); r.err != nil {
				s.bad("%s: %v", tool, r.err)
			}
		}
	case "read":
		began := time.Now()
		d.call("get_notebook_outline", with{})
		if took := time.Since(began); took > 10*time.Second { // a re-opening takes 3
			s.bad("a read took %v", took)
		}
	case "drop":
		d.drop()
	case "wait":
		time.Sleep(time.Duration(one.Seconds) * time.Second)
	}
	time.Sleep(time.Millisecond)
}

// check is whether an answer belongs to its question.
func (s *stage) check(c *asked) {
	r := c.reply
	if c.left || r.err != nil {
		return
	}
	var got struct {
		Status string
		Stdout string
		Cells  []cell
	}
	if err := json.Unmarshal([]byte(r.text), &got); err != nil {
		s.bad("not an object: %s", r.text)
	}
	if c.code != "" && got.Status == "ok" && got.Stdout != c.code {
		s.bad("asked for %q, answered %q", c.code, got.Stdout)
	}
	for i, v := range got.Cells {
		if v.Status == "ok" && v.Stdout != s.tags[v.ID] || !slices.Contains(c.ids, v.ID) {
			s.bad("cell %d of %v: %+v", i, c.ids, v)
		}
	}
}

// after is what must hold when all is quiet.
func (s *stage) after(kernel *tabtest.Kernel) {
	d := s.d
	for _, tab := range append(s.tabs, d.far()) {
		if n := tab.MaxRunsInFlight(); n > 1 {
			s.bad("%d runs in flight", n)
		}
	}
	for _, c := range d.temporary(s.ids...) {
		s.bad("left in the notebook: %q", c.Source)
	}
	if left := d.left(); len(left) > 0 {
		s.bad("still noted as temporary: %+v", left)
	}
	ran := map[string]int{}
	for _, source := range kernel.Ran() {
		ran[source]++
		if strings.Contains(source, "code-") && ran[source] > 1 {
			s.bad("ran twice: %q", source)
		}
	}
	for _, j := range d.jobs.List() {
		first := d.status(j.ID)
		if !slices.Contains([]string{"done", "failed", "cancelled", "lost"}, first.Status) {
			s.bad("%s %s is %s", first.Kind, j.ID, first.Status)
		}
		select {
		case <-j.Done():
		default:
			s.bad("%s has not ended", j.ID)
		}
		for _, c := range first.Cells {
			if c.Status == "running" && first.Status != "lost" {
				s.bad("%s %s has a cell that runs", first.Status, j.ID)
			}
		}
		var unknown *bridge.UnknownError
		if first.Status == "lost" && !errors.As(j.Err(), &unknown) {
			s.bad("%s is lost by %v", j.ID, j.Err())
		}
	}
}
