package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
)

//go:embed demo_plot.py
var demoPlot string

type demoStep struct {
	title string
	play  func(context.Context, *player) error
}

// demoSteps are the main job, as an agent does it.
var demoSteps = []demoStep{
	{"Open a notebook", openStep},
	{"Add two cells", addStep},
	{"Look at the outline", outlineStep},
	{"Run the cells", runStep},
	{"Run code that is no cell, with a table and a plot", plotStep},
	{"Run a cell that fails", failStep},
	{"Look again: nothing of ours is left behind", outlineStep},
}

// shownCell is what the demo checks of a CELL.
type shownCell struct {
	Status string
	Stdout string
	Result string
	Images int
	Error  struct{ Name, Value string }
}

func openStep(ctx context.Context, p *player) error {
	var r struct{ Result bool }
	if err := p.call(ctx, "open_colab_browser_connection", map[string]any{}, &r); err != nil {
		return err
	}
	if !r.Result {
		return errors.New("the stand-in tab did not connect")
	}
	return nil
}

func addStep(ctx context.Context, p *player) error {
	for _, code := range []string{"import statistics\nsquares = [n * n for n in range(10)]", "print('sum', sum(squares))\nstatistics.mean(squares)"} {
		var r struct {
			ID string `json:"newCellId"`
		}
		if err := p.call(ctx, "add_code_cell", map[string]any{"code": code}, &r); err != nil {
			return err
		}
		p.cells = append(p.cells, r.ID)
	}
	return nil
}

func outlineStep(ctx context.Context, p *player) error {
	var r struct {
		Total int
		Cells []struct {
			Index     int
			Type      string
			FirstLine string `json:"first_line"`
		}
	}
	if err := p.call(ctx, "get_notebook_outline", map[string]any{}, &r); err != nil {
		return err
	}
	for _, c := range r.Cells {
		p.say("     [%d] %-8s %s\n", c.Index, c.Type, c.FirstLine)
	}
	if want := 1 + len(p.cells); r.Total != want { // a new notebook has one empty cell
		return fmt.Errorf("expected %d cells, found %d", want, r.Total)
	}
	return nil
}

func runStep(ctx context.Context, p *player) error {
	var r struct {
		Status string
		Cells  []shownCell
	}
	if err := p.call(ctx, "run_cells", map[string]any{"cell_ids": p.cells}, &r); err != nil {
		return err
	}
	if r.Status != "ok" || len(r.Cells) != 2 || r.Cells[1].Stdout != "sum 285\n" || r.Cells[1].Result != "28.5" {
		return errors.New("the cells gave something else than sum 285 and 28.5")
	}
	return nil
}

func plotStep(ctx context.Context, p *player) error {
	var c shownCell
	if err := p.call(ctx, "run_code", map[string]any{"code": demoPlot}, &c); err != nil {
		return err
	}
	for line := range strings.Lines(c.Stdout) {
		p.say("     %s", line)
	}
	if c.Status != "ok" || c.Images != 1 || c.Stdout == "" {
		return errors.New("expected a table and one picture")
	}
	return nil
}

func failStep(ctx context.Context, p *player) error {
	var c shownCell
	if err := p.call(ctx, "run_code", map[string]any{"code": "squares[99]"}, &c); err != nil {
		return err
	}
	p.say("     %s: %s (a result, not an error of the tool)\n", c.Error.Name, c.Error.Value)
	if c.Status != "error" || c.Error.Name != "IndexError" {
		return errors.New("expected an IndexError")
	}
	return nil
}
