package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Newest returns the last n lines logged in dir by all processes, oldest first, without their newlines. It may be
// called while they are written. A folder without logs gives [fs.ErrNotExist].
func Newest(dir string, n int) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read logs: %w", err)
	}
	defer root.Close()
	all, err := disk{root}.list()
	if err != nil {
		return nil, fmt.Errorf("read logs: %w", err)
	}
	var lines []string
	found := false
	for _, f := range all {
		if family, ok := logFamily(f.name); !ok || family != f.name {
			continue
		}
		found = true
		last, err := tail(root, f.name, n)
		if err != nil {
			return nil, fmt.Errorf("read logs: %w", err)
		}
		lines = append(lines, last...)
	}
	if !found {
		return nil, fmt.Errorf("read logs: no log in %s: %w", dir, fs.ErrNotExist)
	}
	// Each process wrote in order, and every line begins with its time.
	slices.SortStableFunc(lines, func(x, y string) int { return strings.Compare(stamp(x), stamp(y)) })
	return lines[max(0, len(lines)-n):], nil
}

// tail returns the last n lines of a log, going back through its generations.
func tail(root *os.Root, name string, n int) ([]string, error) {
	var lines []string
	for i := 0; i < logFiles && len(lines) < n; i++ {
		data, err := root.ReadFile(generation(name, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if data = bytes.TrimSuffix(data, []byte("\n")); len(data) > 0 {
			lines = append(strings.Split(string(data), "\n"), lines...)
		}
	}
	return lines[max(0, len(lines)-n):], nil
}

func stamp(line string) string {
	word, _, _ := strings.Cut(line, " ")
	return word
}
