package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

// looks are the reads of the running cell in a window of time, in seconds since
// its start.
func looks(d *desk, began time.Time) (at []float64) {
	for _, m := range d.far().Calls("get_cells") {
		if s := m.Time.Sub(began).Seconds(); s > 0 {
			at = append(at, s)
		}
	}
	return at
}

func TestPartialOutputIsReadWhileSomebodyWatches(t *testing.T) { // issue 3, 4
	virtual(t, setup{}, func(d *desk) {
		d.fill("print one\nsleep 10\nprint two\nsleep 29.5")
		began := time.Now()
		run := d.start("run_cells", with{"start": 0}, true)
		time.Sleep(39 * time.Second)
		at := looks(d, began)
		equal(t, "first look", at[0], 1.0)
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap < 1 || gap > 5 || i > 1 && gap < at[i-1]-at[i-2]-0.001 {
				t.Errorf("looks at %v", at)
			}
		}
		if n := len(at); n < 8 || n > 14 {
			t.Errorf("%d looks in 39 s", n)
		}
		for _, m := range d.far().Calls("get_cells")[2:] {
			if m.Time.After(began) && string(m.Args) != `{"cellIndexStart":0,"includeOutputs":true,"cellIndexEnd":0}` {
				t.Errorf("not the cell alone: %s", m.Args)
			}
		}
		run.wait()
		time.Sleep(time.Minute)
		n := len(looks(d, began))
		time.Sleep(time.Minute)
		equal(t, "looks after the end", len(looks(d, began)), n)
	})
}

func TestNobodyWatchesNobodyReads(t *testing.T) { // issue 3, 4
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a\nsleep 300")
		id := d.background("run_notebook", with{})
		began := time.Now()
		time.Sleep(299 * time.Second)
		equal(t, "looks", len(looks(d, began)), 0)
		for range 5 { // many who ask at once are one look
			go d.call("job_status", with{"job_id": id})
		}
		s := d.status(id)
		equal(t, "current", s.Current.Stdout, "a\n")
		equal(t, "looks", len(looks(d, began)), 1)
		d.ended(id)
	})
}

func TestProgressBarIsItsLastState(t *testing.T) { // R2, live
	virtual(t, setup{}, func(d *desk) {
		d.fill("progress 1s 100")
		id := d.background("run_notebook", with{})
		time.Sleep(40500 * time.Millisecond)
		if bar := d.status(id).Current.Stderr; bar != " 40%|####| 40/100" {
			t.Errorf("while it runs: %q", bar)
		}
		ask := d.start("job_status", with{"job_id": id, "wait_s": 10}, true)
		ask.wait()
		if words := ask.progress()[0].Message; !strings.HasSuffix(words, "| 41/100") {
			t.Errorf("progress says %q", words)
		}
		if bar := d.ended(id).Cells[0].Stderr; bar != "100%|##########| 100/100\n" {
			t.Errorf("at the end: %q", bar)
		}
	})
}

func TestOutputThatIsReplacedIsNews(t *testing.T) { // C14: the same length, another text
	virtual(t, setup{}, func(d *desk) {
		d.far().Kernel.On("epochs", func(ctx context.Context, _ string, s tabtest.Screen) {
			for i := range 90 {
				s.Emit(localtab.Event{Type: "clear_output", Wait: true})
				s.Write(fmt.Sprintf("epoch %02d\n", i))
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return
				}
			}
		})
		d.fill("epochs")
		id := d.background("run_notebook", with{})
		for range 4 {
			time.Sleep(15 * time.Second)
			if note := d.status(id).Current.Note; note != "" {
				t.Errorf("it says something new all the time: %q", note)
			}
		}
		d.ended(id)
	})
}

func TestFrozenPageDoesNotDisturbTheRun(t *testing.T) { // issue 3, 4; L5
	virtual(t, setup{}, func(d *desk) {
		d.fill("print a\nsleep 60\nprint b")
		began := time.Now()
		run := d.start("run_cells", with{"start": 0}, true)
		time.Sleep(3 * time.Second)
		d.far().Freeze()
		got := as[cellsAnswer](t, run.wait())
		if took := time.Since(began); took > 47*time.Second {
			t.Errorf("answered after %v", took)
		}
		equal(t, "the last look that came", got.Cells[0].Stdout, "a\n")
		began = time.Now()
		equal(t, "asked", d.status(got.JobID).Status, "running")
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a status took %v", took)
		}
		time.Sleep(time.Minute)
		d.far().Thaw()
		s := d.ended(got.JobID)
		equal(t, "status", s.Status, "done")
		equal(t, "output", s.Cells[0].Stdout, "a\nb\n")
		equal(t, "runs", len(d.ran()), 1)
	})
}

func TestSlowReadsDoNotDelayTheAnswer(t *testing.T) { // issue 3, 4
	virtual(t, setup{}, func(d *desk) {
		d.fill("sleep 3")
		began := time.Now()
		run := d.start("run_cells", with{"start": 0}, true)
		time.Sleep(500 * time.Millisecond)
		d.far().Set(func(k *tabtest.Knobs) { k.Delay = map[string]time.Duration{"get_cells": 4 * time.Second} })
		run.wait()
		// The look of second 1 would be back at 5; the read after the run takes 4.
		equal(t, "answered after", time.Since(began), 7*time.Second)
	})
}

func TestProgressShowsTheStreamThatMoves(t *testing.T) { // issue 3, 4: the last line
	virtual(t, setup{}, func(d *desk) {
		d.fill("train")
		d.far().Kernel.On("train", func(ctx context.Context, _ string, s tabtest.Screen) {
			s.Write("epoch 1\n")
			s.Emit(localtab.Event{Type: "stream", Name: "stderr", Text: "\r 10%\r 50%"})
			time.Sleep(10 * time.Second)
			s.Write("epoch 2\n")
			time.Sleep(10 * time.Second)
		})
		run := d.start("run_cells", with{"start": 0}, true)
		run.wait()
		said := run.progress()
		for i, want := range map[int]string{0: " 50%", len(said) - 1: "epoch 2"} {
			if !strings.HasSuffix(said[i].Message, want) {
				t.Errorf("report %d: %q, want %q", i, said[i].Message, want)
			}
		}
	})
}

// Many ask in the moment in which the job ends.
func TestStatusIsOfOneMoment(t *testing.T) { // issue 3, 2
	virtual(t, setup{}, func(d *desk) {
		d.far().Kernel.On("much", func(_ context.Context, _ string, s tabtest.Screen) { s.Write(strings.Repeat("x", 3000)) }) // is read from the store
		d.fill(append(slices.Repeat([]string{"much"}, 10), "sleep 10\nprint b")...)
		for range 6 {
			id := d.background("run_notebook", with{})
			time.Sleep(10 * time.Second)
			var asks []*pending
			for range 10 {
				asks = append(asks, d.start("job_status", with{"job_id": id}))
			}
			for _, ask := range asks {
				if s := as[jobAnswer](t, ask.wait()); s.Status == "done" && (s.Current != nil || slices.Contains(statuses(s.Cells), "running")) {
					t.Errorf("done, and a cell runs: %+v", s.Current)
				}
			}
			d.ended(id)
		}
	})
}
