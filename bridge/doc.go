// Package bridge is the server's side of the user's Colab tab: it listens on
// loopback, admits the one tab that knows the token, speaks MCP to it as a
// client, and opens and re-opens it in the browser.
//
// Start at [Bridge]: it owns the listeners, the slot for one live [Tab], the
// [Gate] that lets one execution through at a time, and the opener.
//
// What always holds:
//
//   - A stranger never gets past the HTTP request: host, origin, subprotocol
//     and token are checked before the upgrade.
//   - One tab at a time. A second one is turned away unless the first is dead.
//   - A tab's answer is handed on as the bytes it sent; nothing here decodes a
//     result on its way to the agent.
//   - A call that was sent and not answered fails with [UnknownError] and is
//     never sent again. Any other error means that nothing happened.
//   - Every goroutine ends in [Bridge.Close], which waits for it.
//
// The package writes no files and reads no flags; what outlives the process is
// handed in as a value and handed out through a callback.
package bridge
