package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The inspector's strict lint finds nothing, whether it speaks to us by
// initialize or by the newer server/discover.
func TestInspectorFindsNothing(t *testing.T) {
	ours := slices.Sorted(maps.Keys(startAgent(t, "--browser", "none").listTools()))
	for _, era := range []string{"legacy", "auto", "modern"} {
		t.Run(era, func(t *testing.T) {
			cmd := npmProgram(t, "mcp-inspector", "--cli", binary(t), "--ephemeral", "--browser", "none",
				"--method", "tools/list", "--strict", "--protocol-era", era)
			cmd.Env = append(cmd.Env, "HOME="+t.TempDir())
			var complaints bytes.Buffer
			cmd.Stderr = &complaints
			out, err := cmd.Output()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				t.Fatalf("the inspector ended with status %d:\n%s%s", exit.ExitCode(), &complaints, out)
			} else if err != nil {
				t.Fatal(err)
			}
			var list struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal(out, &list); err != nil {
				t.Fatalf("%v: %.300s", err, out)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			slices.Sort(names)
			if diff := cmp.Diff(ours, names); diff != "" {
				t.Errorf("the inspector sees other tools (-listed +seen):\n%s", diff)
			}
		})
	}
}

// A client may ask server/discover first, as Claude Code does. It is served
// without a handshake if it is of 2026-07-28.
func TestDiscoverBeginsASession(t *testing.T) {
	a := launchAgent(t, t.TempDir(), "--browser", "none")
	params := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": struct{}{},
	}}
	var found struct {
		Versions     []string `json:"supportedVersions"`
		Instructions string
		Capabilities struct{ Tools struct{ ListChanged bool } }
	}
	if m := a.send("server/discover", params).wait(); json.Unmarshal(m.Result, &found) != nil ||
		!slices.Contains(found.Versions, "2026-07-28") || found.Instructions != instructions || !found.Capabilities.Tools.ListChanged {
		t.Errorf("server/discover: %s%s", m.Result, m.Error)
	}
	params["name"] = "colab_connection_status"
	p := a.send("tools/call", params)
	var status struct{ State string }
	if p.answer().into(&status); status.State != "disconnected" {
		t.Errorf("state %q; wanted disconnected", status.State)
	}
}

// One that names no version gets the error on which clients go back to
// initialize, and that works.
func TestDiscoverOfNoVersionIsRefused(t *testing.T) {
	a := launchAgent(t, t.TempDir(), "--browser", "none")
	if m := a.send("server/discover", struct{}{}).wait(); !bytes.Contains(m.Error, []byte("-32601")) {
		t.Errorf("%s%s; wanted error -32601", m.Result, m.Error)
	}
	a.shakeHands("test")
	var status struct{ State string }
	if a.call("colab_connection_status", nil).into(&status); status.State != "disconnected" {
		t.Errorf("state %q; wanted disconnected", status.State)
	}
}
