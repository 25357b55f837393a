package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"colab-mcp/bridge"
	"colab-mcp/jobs"
	"colab-mcp/transfer"
)

// Interface, general rules: the codes there are, and a hint that is a sentence
// without its full stop.
func TestFailuresHaveKnownCodesAndHints(t *testing.T) {
	codes := strings.Fields("no_tab tab_gone busy outcome_unknown tool_refused not_found not_run checksum changed exists not_allowed locked invalid timeout cancelled no_port internal")
	for _, f := range failures {
		if !slices.Contains(codes, f.code) {
			t.Errorf("code %s is none of interface's", f.code)
		}
		if first := []rune(f.hint)[0]; !unicode.IsUpper(first) || strings.HasSuffix(f.hint, ".") {
			t.Errorf("%s: the hint %q is no sentence without its full stop", f.code, f.hint)
		}
	}
}

// Interface, general rules: `code: what happened. what to do next.`
func TestFailuresReadAsSentences(t *testing.T) {
	form := regexp.MustCompile(`^[a-z_]+: .*[^.]\. [A-Z].*[^.]\.$`)
	waiting := &bridge.NoTabError{Opening: &bridge.Opened{Causes: []string{"The user has not accepted yet (it is asked at every load)."}}}
	for code, err := range map[string]error{
		"no_tab":          waiting,
		"invalid":         &bridge.ArgumentError{Tool: "run_code", Problem: "code is missing: Code to run."},
		"outcome_unknown": fmt.Errorf("relay: %w", &bridge.FrameError{Err: errors.New("cut")}),
		"tab_gone":        fmt.Errorf("%w (for now)", bridge.ErrTabGone),
		"checksum":        transfer.ErrChecksum,
		"internal":        errors.New("nobody knows this one."),
	} {
		got := words(err)
		if !strings.HasPrefix(got, code+": ") || !form.MatchString(got) || strings.Contains(got, "..") {
			t.Errorf("%v became %q", err, got)
		}
	}
}

func TestOutputThatBreaksTheConnectionIsNotToBeReadAgain(t *testing.T) { // I3
	lost := &jobs.LostError{JobID: "job-1", Err: &bridge.UnknownError{Tool: bridge.RunCodeCell, Err: bridge.ErrTooLarge}}
	if got := words(lost); !strings.HasPrefix(got, "outcome_unknown: ") || !strings.Contains(got, "Do not read that output") {
		t.Errorf("got %q", got)
	}
	if got := words(&bridge.FrameError{Err: bridge.ErrTooLarge}); strings.Contains(got, "It was done") {
		t.Errorf("a read: %q", got)
	}
}
