// Package state keeps what outlives a process: small versioned JSON files, results and outputs kept for a while, logs.
// It knows files and folders and nothing of what is in them.
//
// Start at [Open], which gives a [Dir]; [Memory] gives one that touches no disk. [Dir.Load] and [Dir.Save] handle named
// JSON files, [Dir.Blobs] byte strings under a cap. [Create] writes a user's file by the same recipe. [OpenLog] and
// [NewLogger] make a log that rotates and shows no secret.
//
// What always holds:
//
//   - A reader finds the old file or the new one, whatever moment the writer is killed at. The recipe: a temporary file
//     beside the target, write, check the length, fsync, rename, fsync the folder.
//   - Folders are 0700 and files 0600; one that was loosened is tightened when it is next used. A symlink in the place
//     of a file is replaced, never followed.
//   - One process is primary in a folder, by a lock that the system releases when the process dies. Any other one is
//     secondary and works in an area of its own below secondary/, which nobody else reads and which goes away with it.
//   - No process is ever signalled or asked; whether one is alive is seen from its lock.
//
// It starts no goroutines.
package state
