package localtab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"log/slog"
)

// ErrNotebook is matched by the errors for a file that is no notebook this package can edit.
var ErrNotebook = errors.New("not a notebook of nbformat 4")

// idPattern is nbformat 4.5's rule for cell ids.
var idPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// loadNotebook reads an .ipynb of nbformat 4, or makes a fresh notebook if there is no such file.
// Everything it does not know is kept for the save.
func loadNotebook(path string) (*notebook, error) {
	if !strings.EqualFold(filepath.Ext(path), ".ipynb") {
		return nil, fmt.Errorf("%w: %s: expected a file name that ends in .ipynb", ErrNotebook, path)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newNotebook(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the notebook: %w", err)
	}
	nb, err := decodeNotebook(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotebook, path, err)
	}
	return nb, nil
}

func decodeNotebook(data []byte) (*notebook, error) {
	nb := &notebook{}
	var compact bytes.Buffer // raw parts go into frames and are spliced there
	if err := json.Compact(&compact, data); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(compact.Bytes(), &nb.top); err != nil {
		return nil, err
	}
	if string(nb.top["nbformat"]) != "4" {
		return nil, fmt.Errorf("its nbformat is %q; open and save it in Jupyter to convert it", nb.top["nbformat"])
	}
	var cells []fields
	if err := json.Unmarshal(nb.top["cells"], &cells); err != nil {
		return nil, fmt.Errorf("cells: %w", err)
	}
	delete(nb.top, "cells")
	seen := make(map[string]bool)
	for i, f := range cells {
		c, err := decodeCell(f)
		if err != nil {
			return nil, fmt.Errorf("cell %d: %w", i, err)
		}
		if seen[c.id] || !idPattern.MatchString(c.id) {
			c.id = newID()
		}
		seen[c.id] = true
		nb.cells = append(nb.cells, c)
	}
	return nb, nil
}

func decodeCell(f fields) (*cell, error) {
	c := &cell{rest: f}
	if err := json.Unmarshal(f["cell_type"], &c.kind); err != nil {
		return nil, fmt.Errorf("cell_type: %w", err)
	}
	var meta struct {
		ID string `json:"id"` // where Colab keeps it
	}
	json.Unmarshal(f["metadata"], &meta)
	c.id = meta.ID
	json.Unmarshal(f["id"], &c.id) // an illegal one is replaced
	var err error
	if c.source, err = joinedLines(f["source"]); err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	if c.kind == "code" {
		json.Unmarshal(f["execution_count"], &c.count) // null leaves 0
		if c.out, err = decodeOutputs(f["outputs"]); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{"cell_type", "id", "source", "execution_count", "outputs"} {
		delete(f, key)
	}
	return c, nil
}

func decodeOutputs(raw json.RawMessage) (*outputs, error) {
	out := &outputs{}
	if len(raw) == 0 {
		return out, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	for _, r := range list {
		var m struct {
			Type string          `json:"output_type"`
			Name string          `json:"name"`
			Text json.RawMessage `json:"text"`
		}
		if err := json.Unmarshal(r, &m); err != nil {
			return nil, fmt.Errorf("outputs: %w", err)
		}
		text, err := joinedLines(m.Text)
		if m.Type == "stream" && m.Name != "" && err == nil {
			out.list = append(out.list, &output{stream: m.Name, text: []byte(text)})
		} else {
			out.list = append(out.list, &output{raw: r})
		}
	}
	return out, nil
}

// encode writes the notebook as nbformat 4.5, indented as Jupyter does, with the same bytes for the
// same document.
func (nb *notebook) encode() ([]byte, error) {
	nb.mu.Lock()
	cells := make([]cell, len(nb.cells))
	lists := make([][]output, len(nb.cells))
	for i, c := range nb.cells {
		cells[i], lists[i] = *c, c.out.snapshot()
	}
	top := maps.Clone(nb.top)
	nb.mu.Unlock()

	var minor int
	json.Unmarshal(top["nbformat_minor"], &minor)
	top["nbformat"] = json.RawMessage("4")
	top["nbformat_minor"] = fmt.Appendf(nil, "%d", max(minor, 5)) // ids need 4.5
	if top["metadata"] == nil {
		top["metadata"] = json.RawMessage(`{"kernelspec":{"display_name":"Python 3","language":"python","name":"python3"},"language_info":{"name":"python"}}`)
	}
	dst := []byte(`{"cells":[`)
	for i, c := range cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"cell_type":`...), c.kind)
		dst = appendString(append(dst, `,"id":`...), c.id)
		if c.kind == "code" {
			dst = appendCount(append(dst, `,"execution_count":`...), c.count)
			dst = appendOutputs(append(dst, `,"outputs":`...), lists[i])
		}
		if c.rest["metadata"] == nil {
			dst = append(dst, `,"metadata":{}`...)
		}
		dst = appendLines(append(appendFields(dst, c.rest), `,"source":`...), c.source)
		dst = append(dst, '}')
	}
	dst = append(appendFields(append(dst, ']'), top), '}')
	var indented bytes.Buffer
	if err := json.Indent(&indented, dst, "", " "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

func appendFields(dst []byte, f fields) []byte {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		dst = append(appendString(append(dst, ','), key), ':')
		dst = append(dst, f[key]...)
	}
	return dst
}

// save replaces the file at path so that a crash leaves either the old or the new one.
func (nb *notebook) save(path string) error {
	data, err := nb.encode()
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real // a link stays one
		}
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// A saver writes the notebook soon after a change, not more than once a second, and on close.
type saver struct {
	path  string
	nb    *notebook
	log   *slog.Logger
	dirty chan struct{} // capacity 1
	stop  chan struct{}
	done  sync.WaitGroup
}

func newSaver(path string, nb *notebook, log *slog.Logger) *saver {
	s := &saver{path: path, nb: nb, log: log, dirty: make(chan struct{}, 1), stop: make(chan struct{})}
	s.done.Go(s.loop)
	return s
}

func (s *saver) soon() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

func (s *saver) loop() {
	for {
		select {
		case <-s.dirty:
		case <-s.stop:
			return
		}
		if err := s.nb.save(s.path); err != nil {
			s.log.Error("cannot save the notebook", "path", s.path, "err", err)
		}
		pause := time.NewTimer(time.Second)
		select {
		case <-pause.C:
		case <-s.stop:
			pause.Stop()
			return
		}
	}
}

func (s *saver) close() error {
	close(s.stop)
	s.done.Wait()
	if err := s.nb.save(s.path); err != nil {
		return fmt.Errorf("save the notebook: %w", err)
	}
	return nil
}
