package notebook

import (
	"context"
	"slices"
	"strings"

	"colab-mcp/bridge"
)

// Line is a cell as the outline shows it.
type Line struct {
	Index     int    `json:"index"`
	ID        string `json:"id"`
	Type      string `json:"type"`
	FirstLine string `json:"first_line"`
	Lines     int    `json:"lines"`
	Count     *int   `json:"execution_count"`
	HasOutput bool   `json:"has_output"`
	HasError  bool   `json:"has_error"`
}

// Outline lists the cells of a range without their text. total is the number
// of all cells of the notebook, the temporary ones apart. other says that the
// tab shows another notebook than when it was last looked at.
func (n *Notebook) Outline(ctx context.Context, tab *bridge.Tab, first, last int) (lines []Line, total int, other bool, err error) {
	all, other, err := n.Look(ctx, tab)
	if err != nil {
		return nil, 0, false, err
	}
	byID := map[string]int{}
	for _, c := range all {
		if n.Hidden(c) {
			continue
		}
		total++
		if c.Index < first || last >= 0 && c.Index > last {
			continue
		}
		byID[c.ID] = len(lines)
		lines = append(lines, Line{Index: c.Index, ID: c.ID, Type: c.Type, FirstLine: firstLine(c.Source), Lines: countLines(c.Source)})
	}
	if len(lines) == 0 {
		return lines, total, other, nil
	}
	err = Each(ctx, tab, lines[0].Index, lines[len(lines)-1].Index, func(c Cell) error {
		if i, ok := byID[c.ID]; ok {
			lines[i].Count = c.ExecutionCount
			lines[i].HasOutput = len(c.Outputs) > 0
			lines[i].HasError = slices.ContainsFunc(c.Outputs, func(o Output) bool { return o.Type == ErrorOutput })
		}
		return nil
	})
	return lines, total, other, err
}

// batchBytes is about how much one answer of Each's reads should bring: a tab
// must not be asked for more than a frame can carry.
const batchBytes = 4 << 20

// Each reads the cells first to last with their outputs, a few at a time: as
// many as the ones before say will fit.
func Each(ctx context.Context, tab *bridge.Tab, first, last int, f func(Cell) error) error {
	size := 8
	for at := first; at <= last; {
		cells, err := Cells(ctx, tab, at, min(at+size-1, last), true)
		if err != nil {
			return err
		}
		if len(cells) == 0 {
			return nil // the notebook has become shorter
		}
		bytes := 1
		for _, c := range cells {
			bytes += len(c.Source)
			for _, o := range c.Outputs {
				bytes += len(o.Raw)
			}
			if err := f(c); err != nil {
				return err
			}
		}
		at += len(cells)
		size = min(max(batchBytes*len(cells)/bytes, 1), 4*size, 500)
	}
	return nil
}

// firstLine is the first line with something on it, for a person to know the
// cell by.
func firstLine(source string) string {
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" {
			return clip(line, 120)
		}
	}
	return ""
}

func countLines(source string) int {
	if source == "" {
		return 0
	}
	return strings.Count(strings.TrimSuffix(source, "\n"), "\n") + 1
}
