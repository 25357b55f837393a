//go:build !windows

package state

import (
	"errors"
	"os"
	"syscall"
)

// syncFolder makes renames in the folder last. File systems that cannot do that say so, and there is nothing to do.
func syncFolder(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
