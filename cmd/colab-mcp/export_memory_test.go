package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Issue 4: a notebook of 50 MiB exports in bounded memory: less than twice its
// size for the whole process, where an export that holds it all takes several
// times that.
func TestExportOfABigNotebookIsBoundedInMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("peak memory is read from /proc")
	}
	dir := t.TempDir()
	big := filepath.Join(dir, "big.ipynb")
	const cells, line = 100, 64
	text := strings.Repeat(strings.Repeat("x", line-1)+"\n", (512<<10)/line)
	type output struct {
		Type string `json:"output_type"`
		Name string `json:"name"`
		Text string `json:"text"`
	}
	var list []map[string]any
	for i := range cells {
		list = append(list, map[string]any{
			"cell_type": "code", "id": fmt.Sprintf("cell%08d", i), "metadata": struct{}{}, "source": fmt.Sprintf("print(%d)", i),
			"execution_count": i + 1, "outputs": []output{{"stream", "stdout", text}},
		})
	}
	raw, err := json.Marshal(map[string]any{"cells": list, "metadata": struct{}{}, "nbformat": 4, "nbformat_minor": 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	program := benchProgram(t) // as users have it: the race detector has a measure of its own for memory
	p := startBenchProcess(t, program, "--browser", fmt.Sprintf("'%s' tab --plain --notebook '%s'", program, big))
	defer p.end()
	p.ask(t, `"tools/call","params":{"name":"`+opener+`"}`)
	answer := p.ask(t, fmt.Sprintf(`"tools/call","params":{"name":"export_notebook","arguments":{"path":%q}}`, filepath.Join(dir, "out.ipynb")))
	info, err := os.Stat(filepath.Join(dir, "out.ipynb"))
	if err != nil || info.Size() < 50<<20 {
		t.Fatalf("%v: %s", err, answer)
	}
	peak := peakMemory(t, p)
	t.Logf("peak %d MiB for a file of %d MiB", peak>>20, info.Size()>>20)
	if peak > 2*info.Size() {
		t.Errorf("peak memory %d bytes, expected less than twice the file's %d", peak, info.Size())
	}
}
