// Package tabtest is the far tab for tests: a [localtab.Tab] over an in-memory network, running
// scripted cells in virtual time, that misbehaves where a knob says so. Only tests import it.
//
// [Dial] makes one. Between the tab's MCP server and the socket to the bridge stands a relay, as the
// page does in a browser; every [Knobs] field and every method of [FarTab] acts there, on the wire,
// never inside the bridge. What is not turned by a knob is the compliant tab.
//
// Nothing here waits on anything but channels, timers and [net.Pipe], so a whole test with a bridge in
// it runs in a [testing/synctest] bubble.
package tabtest
