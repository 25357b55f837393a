// Package notebook is what a notebook is to us: cells and their outputs, one
// run of one cell, the outline, and the .ipynb file.
//
//	tab's JSON ── DecodeCells, DecodeOutputs ──► Cell, Output
//	                                               │
//	                      ┌────────────────────────┼───────────────┐
//	                 Renderer (a model reads it)   Export       Keep
//	                      │                      (nbformat 4.5) (read_output)
//	                    View ── Fit ──► one result's text, within a budget
//
// Start from [Cell] and [Output]. The seven relayed tools pass the tab's bytes
// through and never come here; everything composite decodes once, here, and
// tolerantly: an unknown output type, mime type or missing key is kept, not
// refused.
//
// What always holds: text shown to a model is valid UTF-8 without escape
// sequences, as it would stand on a terminal in the end; base64 is only ever
// whole and only in an image; what is cut is counted to the byte and says
// where the rest is; no number passes through a float64. A Python exception is
// a result and not an error of ours.
//
// The package does not store anything, does not open files and does not decide
// when a cell may run: the gate is bridge's, keeping is the caller's.
package notebook
