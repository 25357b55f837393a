package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type doctorCmd struct {
	JSON       bool   `help:"Print one JSON object instead."`
	Live       bool   `help:"Also open a real notebook, try everything in it and write a transcript for a report."`
	Notebook   string `placeholder:"URL" help:"The notebook for --live. Default: a new scratch one."`
	Transcript string `default:"colab-mcp-transcript.jsonl" placeholder:"FILE" help:"Where --live writes what it saw. Default: colab-mcp-transcript.jsonl here."`
	Force      bool   `help:"Let --live replace an older transcript."`
}

func (doctorCmd) Help() string {
	return "Changes nothing, needs no network and disturbs no running server. Exit status 1 means that something failed; warnings are no failure.\n\n--live works in cells of its own, which it deletes. The transcript has no token and none of your cells' text.\n  colab-mcp doctor --live --browser \"colab-mcp tab\"    tries it without Colab"
}

// verdict is how a check came out.
type verdict string

const (
	fine    verdict = "ok"
	doubt   verdict = "warn"
	failing verdict = "fail"
)

// check is one thing looked at: what was found and, unless it is fine, what to
// do about it.
type check struct {
	Name    string  `json:"name"`
	Verdict verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Cure    string  `json:"cure,omitempty"`
}

// report is what a doctor prints as JSON.
type report struct {
	Version string  `json:"version"`
	Verdict verdict `json:"verdict"` // the worst
	Checks  []check `json:"checks"`
}

// errUnwell is the end of a doctor that has said all there is to say.
var errUnwell = errors.New("something failed, see above")

func (c doctorCmd) Run(s *settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := printer{w: os.Stdout, quiet: c.JSON}
	p.title("this machine")
	for _, look := range examinations {
		for _, found := range look(ctx, s) {
			p.add(found)
		}
	}
	if c.Live {
		p.title("the notebook")
		if err := c.live(ctx, s, p.add); err != nil {
			return err
		}
	}
	return p.end()
}

// examinations are the checks that need no tab, in the order in which a cause
// comes before what it causes.
var examinations = []func(context.Context, *settings) []check{
	examineProgram, examineLoopback, examinePort, examineHandshake,
	examineState, examineIdentity, examineLog,
	examineBrowser, examinePython, examineClients,
}

func examineProgram(context.Context, *settings) []check {
	return []check{{"program", fine, versionText() + ", " + self(), ""}}
}

// printer shows checks as they come: one line each, the cure below.
type printer struct {
	w      io.Writer
	quiet  bool
	checks []check
}

const nameWidth = 12

func (p *printer) title(text string) {
	if !p.quiet {
		fmt.Fprintf(p.w, "%s\n", text)
	}
}

func (p *printer) add(c check) {
	p.checks = append(p.checks, c)
	if p.quiet {
		return
	}
	fmt.Fprintf(p.w, "  %-4s  %-*s  %s\n", c.Verdict, nameWidth, c.Name, c.Detail)
	if c.Cure != "" {
		fmt.Fprintf(p.w, "  %4s  %-*s  → %s\n", "", nameWidth, "", c.Cure)
	}
}

func (p *printer) end() error {
	r := report{Version: version, Verdict: fine, Checks: p.checks}
	warnings, failures := 0, 0
	for _, c := range p.checks {
		switch c.Verdict {
		case doubt:
			warnings++
		case failing:
			failures++
		}
	}
	switch {
	case failures > 0:
		r.Verdict = failing
	case warnings > 0:
		r.Verdict = doubt
	}
	if p.quiet {
		e := json.NewEncoder(p.w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.w, "%d checks, %d failed, %d to think about\n", len(p.checks), failures, warnings)
	}
	if failures > 0 {
		return errUnwell
	}
	return nil
}

// ago is a span of time as people say it.
func ago(d time.Duration) string {
	n, unit := d.Seconds(), "second"
	switch {
	case d >= 48*time.Hour:
		n, unit = d.Hours()/24, "day"
	case d >= time.Hour:
		n, unit = d.Hours(), "hour"
	case d >= time.Minute:
		n, unit = d.Minutes(), "minute"
	}
	if math.Round(n) != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%.0f %s", n, unit)
}
