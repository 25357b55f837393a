// Package localtab is the far end of the bridge on this machine: it dials in as a Colab tab does and
// serves the same seven tools, over a notebook document and a local Python kernel.
//
// It speaks to the bridge over the wire only and shares no code with it, so that it can stand in for
// the real peer in tests, in demos and offline. Where Colab is odd it is odd in the same way: results
// travel twice (as text and as structuredContent), a run has no timeout and no interrupt tool, a
// cancelled request is never answered while its cell runs on, runs queue, reads do not, and a run
// answers no outputs while a page's "Run anyway" dialog is open.
//
// Start from [Run], or from [New] for a [Tab] that outlives its connection: the document and the
// kernel survive a dropped socket, as they do in Colab.
//
//	bridge ⇄ WebSocket ⇄ conn.go (MCP, the SDK's server) → tools.go → notebook.go
//	                                                           ↓
//	                          tab.go (runs, one at a time) → Kernel → kernel.py → ipykernel
//
// It does not imitate Colab's consent dialog, and it never reconnects by itself.
package localtab
