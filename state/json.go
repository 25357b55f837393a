package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// ErrCorrupt reports a file that could not be read as what Save writes. It was set aside under its name with .bad
// added, in place of an earlier one; the caller starts fresh.
var ErrCorrupt = errors.New("damaged")

// VersionError reports a file of a later program. It is left as it is, and Save refuses to replace it.
type VersionError struct {
	Name         string
	Found, Known int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has version %d, this program knows versions up to %d: update the program or use another state folder",
		e.Name, e.Found, e.Known)
}

// envelope is the form of every JSON file.
type envelope struct {
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data"`
}

// Load reads the named file into v, which is not to be used after an error. An older version is read as it is, so
// fields may be added to a type but never change their meaning. Errors: [fs.ErrNotExist], [ErrCorrupt],
// [*VersionError], or the system's.
func (d *Dir) Load(name string, version int, v any) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	data, err := d.store.read(name)
	if err == nil {
		var found int
		if found, err = decode(data, version, v); err == nil && found > version {
			return fmt.Errorf("load: %w", &VersionError{name, found, version})
		}
		if err == nil {
			return nil
		}
	} else if !errors.Is(err, errNotFile) {
		return fmt.Errorf("load %s: %w", name, err)
	}
	bad := name + ".bad"
	if moved := d.store.rename(name, bad); moved != nil {
		return fmt.Errorf("load %s: %w (%w), and cannot be set aside: %w", name, ErrCorrupt, err, moved)
	}
	return fmt.Errorf("load %s: %w, set aside as %s: %w", name, ErrCorrupt, bad, err)
}

// Save replaces the named file with v as JSON. Of concurrent calls any may be last; each file is whole. A file of a
// later program is not replaced ([*VersionError]).
func (d *Dir) Save(name string, version int, v any) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	old, err := d.store.read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotFile) {
		return fmt.Errorf("save %s: %w", name, err)
	}
	var e envelope
	if json.Unmarshal(old, &e) == nil && e.Version > version {
		return fmt.Errorf("save: %w", &VersionError{name, e.Version, version})
	}
	data, err := encode(version, v)
	if err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	if err := d.store.write(name, data, true); err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	return nil
}

// decode fills v unless the data is of a later version than known, and returns its version.
func decode(data []byte, known int, v any) (version int, err error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return 0, err
	}
	if e.Version < 1 || e.Data == nil {
		return 0, errors.New("no version or no data in it")
	}
	if e.Version > known {
		return e.Version, nil
	}
	return e.Version, json.Unmarshal(e.Data, v)
}

func encode(version int, v any) ([]byte, error) {
	var data, file bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	enc = json.NewEncoder(&file)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(envelope{version, data.Bytes()})
	return file.Bytes(), err
}
