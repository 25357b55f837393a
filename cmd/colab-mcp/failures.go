package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/jobs"
	"colab-mcp/notebook"
	"colab-mcp/transfer"
)

// The words an agent reads when something failed: `code: what happened. what
// to do next.` What happened is the error's own text. The hint names the next
// action, as an instruction, and never blames. The first row that matches
// counts.
var failures = []failure{
	{"no_tab", is[*bridge.NoTabError], "Call open_colab_browser_connection (with notebook_url for a certain notebook) and ask the user to press Connect in the tab"},
	{"changed", is[*notebook.OtherError], "Look at it with get_notebook_outline; after that it is taken for the one that is meant. To go back call open_colab_browser_connection with the notebook_url and force"},
	{"tool_refused", is[*bridge.MissingToolError], "Use list_colab_tools to see what this tab offers"},
	{"tab_gone", is[*transfer.InterruptedError], "Repeat the call: it goes on behind what is confirmed"},
	{"outcome_unknown", tooLarge, "It was done and is not sent again. Do not read that output with get_cells, which breaks the connection anew; let the cell print less before it is run again"},
	{"outcome_unknown", is[*jobs.LostError], "It is not sent again. When the notebook is connected again, ask job_status for what became of it, or look with get_cells, before running it anew"},
	{"outcome_unknown", is[*bridge.UnknownError], "It is not sent again. Look with get_cells what became of it before repeating it"},
	{"outcome_unknown", is[*bridge.FrameError], "The tab did what was asked; only its answer is lost. Look with get_notebook_outline, or with get_cells at a few cells, and let cells print less or write to a file"},
	{"checksum", target(transfer.ErrChecksum), "The target is as it was. Repeat the call"},
	{"changed", target(transfer.ErrChanged), "The target is as it was. Repeat the call when nothing writes to the file"},
	{"changed", target(notebook.ErrMoved), "Nothing was written. Repeat the call when nobody edits the notebook"},
	{"exists", target(notebook.ErrExists), "Choose another name, or repeat the call with overwrite: true"},
	{"not_allowed", target(notebook.ErrNotAllowed), "Choose a path that is not hidden and, if the server was started with --allow-dir, below one of its folders"},
	{"not_allowed", target(fs.ErrPermission), "Choose a path that may be read or written"},
	{"not_found", target(fs.ErrNotExist), "Correct the path; run_code with os.listdir shows what the runtime has"},
	{"invalid", target(notebook.ErrIsDirectory), "Pack it first (tar czf NAME.tgz DIRECTORY, in the runtime by run_code) and move the archive"},
	{"invalid", target(notebook.ErrNotRegular), "Name a regular file"},
	{"invalid", target(notebook.ErrNeedAbsolute), "Give an absolute path"},
	{"invalid", target(fs.ErrInvalid), "Correct the path"},
	{"invalid", is[*transfer.TooLargeError], "Fetch it from inside the runtime instead, with run_code (curl, gdown, drive.mount), or start the server with a larger --max-transfer"},
	{"locked", target(notebook.ErrStaging), "Wait for the other transfer of this file, see list_jobs"},
	{"tool_refused", target(transfer.ErrNoSpace), "The target is as it was. Make room for the file, then repeat the call"},
	{"tab_gone", target(bridge.ErrTabGone), "Nothing was run. Repeat the call: the notebook is re-opened for it"},
	{"busy", is[*bridge.BusyError], "Wait for it with job_status, cancel it with cancel_job, or repeat with force: true to leave it"},
	{"timeout", is[*bridge.SilentError], "Ask the user to bring the Colab tab to the front and to close any dialog in it, then repeat the call"},
	{"tool_refused", is[*bridge.ToolError], "Correct the call; get_notebook_outline shows the cells there are"},
	{"not_found", missing("cell"), "Use get_notebook_outline for the cells there are"},
	{"not_found", missing("job"), "Use list_jobs for the jobs there are; they are kept for a day"},
	{"not_found", missing("output"), "It is kept for a while only, and named in the result it was cut from; run the cell again if it is needed"},
	{"not_found", is[*notebook.StreamError], "Name one of those streams, or none"},
	{"no_port", is[*bridge.PortError], "End the program that has the port, or start colab-mcp with another --port; then repeat the call"},
	{"invalid", is[*bridge.ArgumentError], "Correct the arguments and repeat the call"},
	{"invalid", is[*bridge.LinkError], "Ask the user for such a link"},
	{"invalid", target(notebook.ErrQuery), "Correct the arguments and repeat the call"},
	{"invalid", is[*jobs.NoDeadlineError], "Run it without timeout_s"},
	{"tool_refused", target(notebook.ErrShape), "This tab answers otherwise than a Colab tab does: ask the user to reload it, and report it with the log"},
	{"cancelled", target(jobs.ErrShutdown), "Start the server again"},
	{"cancelled", target(context.Canceled), "Repeat the call if it is still wanted"},
	{"timeout", target(context.DeadlineExceeded), "Repeat the call; if it goes on, look at colab_connection_status"},
}

type failure struct {
	code  string
	match func(error) bool
	hint  string
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func missing(what string) func(error) bool {
	return func(err error) bool {
		var e *jobs.NotFoundError
		return errors.As(err, &e) && e.What == what
	}
}

func target(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}

// tooLarge matches a run whose answer was more than a connection takes.
func tooLarge(err error) bool {
	return is[*jobs.LostError](err) && errors.Is(err, bridge.ErrTooLarge)
}

// words is a failure as an agent reads it.
func words(err error) string {
	what := strings.TrimSuffix(err.Error(), ".") // some causes are sentences
	for _, f := range failures {
		if f.match(err) {
			return fmt.Sprintf("%s: %s. %s.", f.code, what, f.hint)
		}
	}
	return fmt.Sprintf("internal: %s. Repeat the call; if it fails again, look at colab_connection_status and report it with the log.", what)
}

// explain turns the errors of tools into words. A tool that does not exist is
// something a model can correct, too.
func explain(tb *bridge.Toolbox) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && method == "tools/call" && !tb.Lists(p.Name) {
				return said(fmt.Sprintf("not_found: there is no tool %q. Use one of tools/list; tools of the tab alone are called by call_colab_tool.", p.Name)), nil
			}
			res, err := next(ctx, method, req)
			if call, ok := res.(*mcp.CallToolResult); ok && err == nil && call.GetError() != nil {
				return said(words(call.GetError())), nil
			}
			return res, err
		}
	}
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// survive turns a panic in a handler into an answer: the process serves on.
func survive(log *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
			defer func() {
				p := recover()
				if p == nil {
					return
				}
				log.Error("panic in a handler", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if method != "tools/call" {
					res, err = nil, errors.New("internal: the server met a fault of its own")
					return
				}
				res, err = said("internal: the server met a fault of its own, which is in the log. Repeat the call; if it fails again, report it with the log."), nil
			}()
			return next(ctx, method, req)
		}
	}
}
