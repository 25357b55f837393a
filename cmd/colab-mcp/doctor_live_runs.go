package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
)

func (p *probe) oneRun() (string, error) {
	after, ran, err := p.once("import sys\nprint('out')\nprint('err', file=sys.stderr)\n40 + 2")
	if err != nil {
		return "", err
	}
	outs, err := notebook.DecodeOutputs(ran.raw)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(outs, func(o notebook.Output) bool { return strings.Contains(o.Text, "out") }) {
		return "", fmt.Errorf("what was printed is not in the outputs (%s)", kinds(outs))
	}
	return fmt.Sprintf("%s, outputs %s, execution_count %s, a cell has %s", round(ran.took), kinds(outs), number(after.ExecutionCount), keys(after)), nil
}

// keys says what the tab tells of a cell.
func keys(c notebook.Cell) string {
	list := []string{"cell_type", "id", "source"}
	if c.HasOutputs {
		list = append(list, "outputs")
	}
	if c.HasCount {
		list = append(list, "execution_count")
	}
	if c.Metadata != nil {
		list = append(list, "metadata "+cut(string(c.Metadata)))
	}
	return strings.Join(list, ", ")
}

func kinds(outs []notebook.Output) string {
	var list []string
	for _, o := range outs {
		list = append(list, strings.TrimSuffix(o.Type+" "+o.Name, " "))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func number(n *int) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

func (p *probe) empty() (string, error) {
	after, ran, err := p.once("pass")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("outputs %s, execution_count %s", cut(string(ran.payload["outputs"])), number(after.ExecutionCount)), nil
}

func (p *probe) exception() (string, error) {
	_, ran, err := p.once("1 / 0")
	if err != nil {
		return "", err
	}
	outs, err := notebook.DecodeOutputs(ran.raw)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(outs, func(o notebook.Output) bool { return o.Type == notebook.ErrorOutput })
	if i < 0 {
		return "", fmt.Errorf("no error among the outputs: %s", kinds(outs))
	}
	return fmt.Sprintf("a result: %s: %s, %d lines of traceback", outs[i].EName, outs[i].EValue, len(outs[i].Traceback)), nil
}

// plotCode needs matplotlib, which Colab has; elsewhere an image is made by
// hand.
const plotCode = `try:
    import matplotlib.pyplot as plt
    plt.plot([1, 2]); plt.show()
except ImportError:
    from IPython.display import Image, display
    display(Image(data=bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082")))`

func (p *probe) plot() (string, error) {
	_, ran, err := p.once(plotCode)
	if err != nil {
		return "", err
	}
	outs, err := notebook.DecodeOutputs(ran.raw)
	if err != nil {
		return "", err
	}
	for _, o := range outs {
		if png := o.Data["image/png"]; png != nil {
			return fmt.Sprintf("%s with image/png of %d characters, in %s", o.Type, len(png), round(ran.took)), nil
		}
	}
	return "", fmt.Errorf("no image/png among the outputs: %s", kinds(outs))
}

// busyTime is how long the cell runs whose output is looked at meanwhile.
const busyTime = 6 * time.Second

func (p *probe) liveOutput() (string, error) {
	id, err := p.cell(fmt.Sprintf("import time\nprint('begun', flush=True)\ntime.sleep(%d)", int(busyTime.Seconds())))
	if err != nil {
		return "", err
	}
	began := time.Now()
	ended := p.start(id)
	seen, reads := time.Duration(0), 0
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case a := <-ended:
			if _, err := a.told.must(a.err); err != nil {
				return "", err
			}
			if reads == 0 {
				return "", errors.New("get_cells is not answered while a cell runs")
			}
			if seen == 0 {
				return "", fmt.Errorf("%d reads while it ran, none showed its output", reads)
			}
			return fmt.Sprintf("seen after %s, %d reads while it ran", round(seen), reads), p.remove(id)
		case <-tick.C:
			t, err := p.call(bridge.GetCells, map[string]any{"cellIndexStart": p.size, "cellIndexEnd": p.size, "includeOutputs": true})
			if _, err := t.must(err); err != nil {
				return "", fmt.Errorf("get_cells while a cell runs: %w", err)
			}
			reads++
			if seen == 0 && strings.Contains(string(t.payload["cells"]), "begun\\n") {
				seen = time.Since(began)
			}
		}
	}
}
