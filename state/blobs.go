package state

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// Limits bound what [Blobs] keep. Zero is no limit; in memory Bytes is 64 MiB at most.
type Limits struct {
	Bytes int64
	Count int
	Age   time.Duration // by the wall clock, since Put
}

// memoryBytes bounds blobs that no disk takes.
const memoryBytes = 64 << 20

// ErrTooLarge reports a blob that alone is over the limit of bytes.
var ErrTooLarge = errors.New("larger than all that may be kept")

// Blobs keeps byte strings by key and forgets the oldest when a limit is passed. It outlives the process, kill -9
// included; a power failure may cost the blobs of the last seconds, for no fsync is waited for. Safe for concurrent use.
type Blobs struct {
	store  store
	limits Limits

	mu    sync.Mutex // guards the following and the files
	kept  []stored   // oldest first; size is without the check sum
	total int64
}

// Every file ends with the CRC-32C of what is before, so a blob torn by a power failure is missing, not wrong.
const sumSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Blobs opens the blobs in the folder sub, once for a Dir. What is there beyond the limits is removed.
func (d *Dir) Blobs(sub string, limits Limits) (*Blobs, error) {
	if err := checkName(sub); err != nil {
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.blobs[sub] != nil || sub == areasName {
		return nil, fmt.Errorf("open blobs: %w: %q is in use", ErrName, sub)
	}
	s, err := d.store.sub(sub)
	if err != nil {
		return nil, fmt.Errorf("open blobs %s: %w", sub, err)
	}
	b := &Blobs{store: s, limits: limits}
	if d.lock == nil && (limits.Bytes == 0 || limits.Bytes > memoryBytes) {
		b.limits.Bytes = memoryBytes
	}
	if err := b.scan(); err != nil {
		s.close()
		return nil, fmt.Errorf("open blobs %s: %w", sub, err)
	}
	d.blobs[sub] = s
	return b, nil
}

func (b *Blobs) scan() error {
	all, err := b.store.list()
	if err != nil {
		return err
	}
	for _, f := range all {
		if checkName(f.name) != nil || f.size < sumSize {
			continue
		}
		f.size -= sumSize
		b.kept = append(b.kept, f)
		b.total += f.size
	}
	slices.SortFunc(b.kept, func(x, y stored) int {
		return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.name, y.name))
	})
	return b.evict()
}

// Put keeps data under key as the newest, in place of what was there. Keys are lower-case ([ErrName]). An error of
// eviction is reported although the blob is kept.
func (b *Blobs) Put(key string, data []byte) error {
	if err := checkName(key); err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	if b.limits.Bytes > 0 && int64(len(data)) > b.limits.Bytes {
		return fmt.Errorf("keep %s: %w: %d bytes of %d", key, ErrTooLarge, len(data), b.limits.Bytes)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, castagnoli))
	if err := b.store.write(key, slices.Concat(data, sum), false); err != nil {
		return fmt.Errorf("keep %s: %w", key, err)
	}
	if i := b.find(key); i >= 0 {
		b.forget(i)
	}
	b.kept = append(b.kept, stored{key, int64(len(data)), wallNow()})
	b.total += int64(len(data))
	if err := b.evict(); err != nil {
		return fmt.Errorf("keep %s: %w", key, err)
	}
	return nil
}

// Get returns what was kept under key, or an error that is [fs.ErrNotExist]: never put, forgotten, or damaged.
func (b *Blobs) Get(key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.find(key)
	if i < 0 || b.expired(b.kept[i]) {
		return nil, fmt.Errorf("get kept %q: %w", key, fs.ErrNotExist)
	}
	data, err := b.store.read(key)
	if errors.Is(err, fs.ErrNotExist) {
		b.forget(i)
	}
	if err != nil {
		return nil, fmt.Errorf("get kept %q: %w", key, err)
	}
	data, sum, ok := cutSum(data)
	if !ok || crc32.Checksum(data, castagnoli) != sum {
		b.forget(i)
		err := b.store.remove(key)
		return nil, errors.Join(fmt.Errorf("get kept %q: damaged on disk: %w", key, fs.ErrNotExist), err)
	}
	return data, nil
}

// Delete removes what is kept under key, if anything.
func (b *Blobs) Delete(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.find(key)
	if i < 0 {
		return nil
	}
	if err := b.remove(i); err != nil {
		return fmt.Errorf("delete kept %q: %w", key, err)
	}
	return nil
}

// Keys lists what is kept, newest first.
func (b *Blobs) Keys() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []string
	for _, f := range slices.Backward(b.kept) {
		if !b.expired(f) {
			keys = append(keys, f.name)
		}
	}
	return keys
}

func (b *Blobs) find(key string) int {
	return slices.IndexFunc(b.kept, func(f stored) bool { return f.name == key })
}

// evict removes the oldest until the rest is within the limits.
func (b *Blobs) evict() error {
	for len(b.kept) > 0 && b.over() {
		if err := b.remove(0); err != nil {
			return err
		}
	}
	return nil
}

func (b *Blobs) over() bool {
	l := b.limits
	return l.Bytes > 0 && b.total > l.Bytes || l.Count > 0 && len(b.kept) > l.Count || b.expired(b.kept[0])
}

func (b *Blobs) expired(f stored) bool {
	return b.limits.Age > 0 && wallNow().Sub(f.at) > b.limits.Age
}

func (b *Blobs) remove(i int) error {
	if err := b.store.remove(b.kept[i].name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.forget(i)
	return nil
}

func (b *Blobs) forget(i int) {
	b.total -= b.kept[i].size
	b.kept = slices.Delete(b.kept, i, i+1)
}

func cutSum(file []byte) (data []byte, sum uint32, ok bool) {
	n := len(file) - sumSize
	if n < 0 {
		return nil, 0, false
	}
	return file[:n:n], binary.BigEndian.Uint32(file[n:]), true
}

// wallNow leaves out the monotonic clock, which stands still while a laptop sleeps and is unknown to files.
func wallNow() time.Time { return time.Now().Round(0) }
