package transfer

import (
	"errors"
	"fmt"
	"io/fs"

	"colab-mcp/notebook"
)

// Errors of a transfer, besides notebook's for local paths. ErrExists, ErrIsDirectory and ErrNotRegular of notebook, and fs.ErrNotExist, are those of remote paths as well.
var (
	// ErrChecksum: what arrived is not what was sent. The target is as it was.
	ErrChecksum = errors.New("the hash of what arrived is not that of the source")
	// ErrChanged: the source is not the file it was at the start.
	ErrChanged = errors.New("the source changed while it was read")
	// ErrNoSpace: on either side. The target is as it was.
	ErrNoSpace = notebook.ErrNoSpace
	// ErrUnreliable: chunks did not come through, again and again, in the smallest size too.
	ErrUnreliable = errors.New("the notebook does not bring the chunks through")
)

// TooLargeError: nothing was sent.
type TooLargeError struct{ Size, Max int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the file has %d bytes, more than the limit of %d", e.Size, e.Max)
}

// InterruptedError: the channel broke, or the runtime was lost for good. A repeat of the call goes on behind the bytes confirmed.
type InterruptedError struct {
	Confirmed, Total int64
	Err              error
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("%d of %d bytes are confirmed: %v", e.Confirmed, e.Total, e.Err)
}

func (e *InterruptedError) Unwrap() error { return e.Err }

// RemoteError is a failure on the runtime's side, which Is one of the errors above if it has a name there.
type RemoteError struct {
	Path string // the path asked for
	Err  *notebook.PythonError
}

func (e *RemoteError) Error() string {
	if kind := e.kind(); kind != nil {
		return fmt.Sprintf("in the runtime: %v: %s", kind, e.Err.Value)
	}
	return fmt.Sprintf("in the runtime: %q: %v", e.Path, e.Err)
}

// Unwrap makes the kind and the Python exception visible to errors.Is and errors.As.
func (e *RemoteError) Unwrap() []error {
	if kind := e.kind(); kind != nil {
		return []error{kind, e.Err}
	}
	return []error{e.Err}
}

func (e *RemoteError) kind() error {
	switch e.Err.Code {
	case "exists":
		return notebook.ErrExists
	case "directory", "EISDIR":
		return notebook.ErrIsDirectory
	case "not_regular":
		return notebook.ErrNotRegular
	case "missing", "no_directory", "ENOENT":
		return fs.ErrNotExist
	case "space", "ENOSPC", "EDQUOT", "EFBIG":
		return ErrNoSpace
	case "EACCES", "EPERM", "EROFS":
		return fs.ErrPermission
	case "changed":
		return ErrChanged
	case "checksum":
		return ErrChecksum
	}
	return nil
}
