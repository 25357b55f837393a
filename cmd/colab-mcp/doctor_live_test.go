package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

// Ctrl+C while a cell of ours runs and the tab talks on: the transcript is
// whole, and nothing that the cell left running is disturbed by the clean-up.
func TestDoctorLiveIsInterrupted(t *testing.T) {
	browser, links := handedOver(t)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupted := make(chan struct{})
	add := func(c check) {
		if c.Name == "live output" {
			interrupt()
			close(interrupted)
		}
	}
	path := filepath.Join(t.TempDir(), "transcript.jsonl")
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = doctorCmd{Transcript: path}.live(ctx, &settings{Browser: browser, UITimeout: duration(patience)}, add)
	}()

	var k tabtest.Kernel
	tabs := make(chan *tabtest.FarTab, 1)
	k.On("time.sleep", func(ctx context.Context, _ string, _ tabtest.Screen) { // the look at its output fails
		(<-tabs).Set(func(k *tabtest.Knobs) { k.Fail = map[string]string{"get_cells": "not now"} })
		<-ctx.Done()
	})
	tab := tabtest.Dial(t, nil, <-links, tabtest.Knobs{Options: localtab.Options{Kernel: &k}})
	tabs <- tab
	var talk sync.WaitGroup
	talk.Go(func() {
		<-interrupted
		for pace := time.NewTicker(time.Millisecond); ; <-pace.C {
			select {
			case <-ended:
				return
			default:
				tab.Inject(`{"jsonrpc":"2.0","method":"notifications/of/nothing"}`)
			}
		}
	})
	await(t, ended, "the end of the doctor")
	talk.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if n := len(readTranscript(t, path)); n < 20 {
		t.Errorf("%d lines of transcript", n)
	}
}
