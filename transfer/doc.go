// Package transfer moves files between this machine and the runtime, through cells: the only channel there is.
//
//	Files.Upload ─► chunks ─► put(offset, hash, data) ─► Channel ─► staging file ─► finish: hash, fsync, rename
//	Files.Download ◄─ staging file ◄─ hash ◄─ get(offset, size) ◄─ Channel ◄─ file
//
// Start from [Files]. A [Channel] is two temporary cells and a way to run one; while a cell runs, the next chunk is written into the other.
//
// What always holds: the target is as it was until the whole file is there and its SHA-256 is right. A chunk counts when the far side has
// confirmed it. A transfer that was refused, cancelled or turned out wrong leaves nothing; one whose channel broke leaves a
// staging file beside the target, named after target and source, and a repeat goes on from there. Both sides sweep what nobody came back
// for: at once when the same target gets another source, else after three days when something is next written to that directory.
// Memory is a few chunks, whatever the size.
//
// The package does not retry a broken channel: that is for who called.
package transfer
