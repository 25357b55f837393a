// Package stdio is the agent's pipe as an MCP transport: newline-delimited JSON-RPC under the MCP Go
// SDK's server. Start from [Transport].
//
//	stdin  -> lines -> sorted (message.go) -> calls in flight (calls.go) -> SDK server
//	stdout <- one line a message           <- calls in flight            <- SDK server
//
// It exists because the SDK's own stdio session ends on the first malformed line, and because the SDK
// re-encodes a tool's result. What always holds:
//
//   - No line ends the session. What is no JSON-RPC is answered with an error or ignored.
//   - A request's id is echoed byte for byte, whatever its size.
//   - A cancelled request gets no answer, and no progress follows an answer or a cancel.
//   - A result handed to [Transport.Splice] is written as it is, undecoded.
//
// It does not interpret MCP beyond notifications/cancelled and notifications/progress, and it does not
// speak JSON-RPC batches, which MCP dropped in 2025-06-18.
package stdio
