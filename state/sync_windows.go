package state

import "os"

// syncFolder does nothing: Windows has no fsync for folders, NTFS journals its renames.
func syncFolder(*os.Root) error { return nil }
