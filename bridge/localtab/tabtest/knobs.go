package tabtest

import (
	"encoding/json"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge/localtab"
)

// Knobs say how a far tab misbehaves. The zero value is a compliant tab with a [Kernel] of its own.
// They may be changed later, see [FarTab.Set].
type Knobs struct {
	// Options of the tab. Kernel is the one that runs the cells; nil is a new [Kernel]. TextOnly,
	// StructuredOnly and DialogOpen are knobs too. Dial is ignored.
	Options localtab.Options
	// Reuse dials again with the document and the kernel of an earlier far tab. Options is ignored.
	Reuse *FarTab

	// Handshake and list.

	NoInitialize bool              // initialize is never answered
	ToolsList    ListMode          // how tools/list goes wrong
	ExtraTools   []json.RawMessage // listed after the seven; calls of them answer their arguments as text
	WithoutTools []string          // not listed

	// Calls.

	Swallow  []string                 // tools whose calls are done and never answered; see [FarTab.Release]
	Delay    map[string]time.Duration // tools whose answers come that much later
	Answer   map[string]string        // tools that are not called; this raw result is sent instead
	Fail     map[string]string        // tools that are not called; isError with this text, for example delete_cell
	Progress int                      // progress notifications sent when a call with a token arrives
	Logs     int                      // notifications/message sent when a call arrives

	// Shapes of get_cells and run_code_cell payloads.

	StringText bool // source and text are strings, not lists of lines
	NoIDs      bool // cells have no id
	NoCounts   bool // cells have no execution_count

	// Socket.

	DropRunAfter  time.Duration        // the socket is dropped that long after a run_code_cell arrived; 0 = never
	DropAtMessage int                  // the socket is dropped when the n-th message arrives, which is not acted on; 0 = never
	DropCode      websocket.StatusCode // close code of such a drop; 0 = no close frame
}

// A ListMode is how tools/list is answered.
type ListMode string

const (
	ListWell    ListMode = ""        // one page
	ListTwo     ListMode = "two"     // two pages
	ListFails   ListMode = "fails"   // a JSON-RPC error
	ListHangs   ListMode = "hangs"   // no answer
	ListEndless ListMode = "endless" // every page has a nextCursor, always another
	ListRepeats ListMode = "repeats" // every page has the same nextCursor
	ListEmpty   ListMode = "empty"   // no tools
)

// Tool is a tool definition for ExtraTools and [FarTab.AddTools]. Schema is raw JSON, "" leaves
// inputSchema out.
func Tool(name, schema string) json.RawMessage {
	def := map[string]any{"name": name, "description": "Tool " + name + " of a test."}
	if schema != "" {
		def["inputSchema"] = json.RawMessage(schema)
	}
	raw, err := json.Marshal(def)
	if err != nil {
		panic(err)
	}
	return raw
}
