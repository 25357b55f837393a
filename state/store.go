package state

import (
	"io/fs"
	"slices"
	"sync"
	"time"
)

// store is a flat folder of whole files, on disk or in memory. Safe for concurrent use; a write replaces the file as
// a whole, and of two at once either may be last.
type store interface {
	read(name string) ([]byte, error)
	// write is all or nothing against kill -9 always, and against a power failure if durable.
	write(name string, data []byte, durable bool) error
	rename(from, to string) error
	remove(name string) error
	list() ([]stored, error)
	// sub opens the folder name below this one, made if need be, and clears what dead writers left in it.
	sub(name string) (store, error)
	close() error
}

type stored struct {
	name string
	size int64
	at   time.Time
}

type memory struct {
	mu    sync.Mutex // guards files
	files map[string]memoryFile
}

type memoryFile struct {
	data []byte
	at   time.Time
}

func (m *memory) read(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[name]
	if !ok {
		return nil, notExist("read", name)
	}
	return slices.Clone(f.data), nil
}

func (m *memory) write(name string, data []byte, _ bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = memoryFile{slices.Clone(data), time.Now()}
	return nil
}

func (m *memory) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[from]
	if !ok {
		return notExist("rename", from)
	}
	delete(m.files, from)
	m.files[to] = f
	return nil
}

func (m *memory) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.files[name]; !ok {
		return notExist("remove", name)
	}
	delete(m.files, name)
	return nil
}

func (m *memory) list() ([]stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []stored
	for name, f := range m.files {
		all = append(all, stored{name, int64(len(f.data)), f.at})
	}
	return all, nil
}

func (m *memory) sub(string) (store, error) {
	return &memory{files: map[string]memoryFile{}}, nil
}

func (m *memory) close() error { return nil }

func notExist(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}
