package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// liveTools follows what the connected tab lists beside, or otherwise than, the
// seven. What a tab added stays listed after it has gone, so that the list
// changes as rarely as it can; a call then says that there is no tab.
type liveTools struct {
	mu      sync.Mutex      // guards all below
	shown   map[string]Tool // as the tab listed them
	begun   bool            // the client has finished its handshake, or asked for the list
	changed time.Time       // when the visible list last changed
	listed  chan struct{}   // closed when the client asks for the list
}

// plainName is what every client takes as a tool name.
var plainName = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)

// Follow makes the visible tools those of a live tab. It may be called for the
// same list again. A tool of ours is never shadowed, and a name that clients
// refuse is left to call_colab_tool.
func (tb *Toolbox) Follow(tools []Tool) { tb.follow(func() []Tool { return tools }) }

// follow is Follow for a list that is read when its turn has come: one that was
// read before could take the place of a newer one, for good.
func (tb *Toolbox) follow(list func() []Tool) {
	l := &tb.live
	l.mu.Lock()
	defer l.mu.Unlock()
	tools := list()
	if tools == nil {
		return
	}
	want := map[string]Tool{}
	for _, t := range tools {
		if plainName.MatchString(t.Name) && (!tb.Owns(t.Name) || differs(t)) {
			want[t.Name] = t
		}
	}
	before := l.shown
	if maps.EqualFunc(want, before, sameTool) {
		return
	}
	l.shown, l.changed, l.listed = want, time.Now(), make(chan struct{})
	for name, t := range want {
		if old, ok := before[name]; ok && sameTool(old, t) {
			continue
		}
		def := t
		if ours, ok := Known(name); ok {
			def.Description = ours.Description
		}
		tb.set(relayTool(def), relaxed(name, def), tb.Relay(name))
	}
	for name := range before {
		if _, stays := want[name]; stays {
			continue
		}
		if def, ok := Known(name); ok {
			tb.set(relayTool(def), ParseParams(def.InputSchema), tb.Relay(name))
		} else {
			tb.Server.RemoveTools(name)
		}
	}
}

// Lists reports whether name is on the visible list now.
func (tb *Toolbox) Lists(name string) bool {
	tb.live.mu.Lock()
	defer tb.live.mu.Unlock()
	_, live := tb.live.shown[name]
	return live || tb.Owns(name)
}

// shown is the parameters of a tab's tool as the visible list has them, if it
// says anything of them.
func (tb *Toolbox) shown(name string) (Params, bool) {
	tb.live.mu.Lock()
	defer tb.live.mu.Unlock()
	if def, ok := tb.live.shown[name]; ok {
		return relaxed(name, def), !undescribed(def.InputSchema)
	}
	def, ok := Known(name)
	return ParseParams(def.InputSchema), ok
}

// relaxed is a live schema with the defaults that we fill in.
func relaxed(tool string, def Tool) Params {
	params := ParseParams(def.InputSchema)
	params.relax(defaults(tool, params))
	return params
}

// relax makes the parameters that have a default optional.
func (ps Params) relax(filled map[string]json.RawMessage) {
	for i, p := range ps {
		if _, ok := filled[p.Name]; ok {
			ps[i].Required = false
		}
	}
}

// differs reports whether a tab lists one of the seven with other parameters
// than the captured ones. Composites of ours are not the tab's to change.
func differs(live Tool) bool {
	known, ok := Known(live.Name)
	if !ok {
		return false
	}
	ours, theirs := ParseParams(known.InputSchema), relaxed(live.Name, live)
	return len(ours) != len(theirs) || slices.ContainsFunc(ours, func(a Param) bool {
		b, ok := theirs.Find(a.Name)
		return !ok || a.Type != b.Type || a.Required != b.Required || !slices.Equal(a.Enum, b.Enum)
	})
}

func sameTool(a, b Tool) bool {
	return a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
}

// quietAtFirst keeps back the news of a changed list from a client that is not
// initialized: it may not be sent yet (MCP, lifecycle), and the client has no
// list that it could be about.
func (tb *Toolbox) quietAtFirst(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		tb.live.mu.Lock()
		begun := tb.live.begun
		tb.live.mu.Unlock()
		if method == "notifications/tools/list_changed" && !begun {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}

// Middleware tells the toolbox when the client asks for the list.
func (tb *Toolbox) Middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "tools/list" || method == "notifications/initialized" {
			tb.live.mu.Lock()
			tb.live.begun = true
			tb.live.mu.Unlock()
		}
		res, err := next(ctx, method, req)
		if method == "tools/list" {
			l := &tb.live
			l.mu.Lock()
			if l.listed != nil {
				close(l.listed)
				l.listed = nil
			}
			l.mu.Unlock()
		}
		return res, err
	}
}

const (
	relistWithin = 2 * time.Second
	relistGrace  = 200 * time.Millisecond
)

// settle gives a client that was just told of new tools the time to ask for
// them: one that learns of them with the answer offers them a turn too late.
func (tb *Toolbox) settle(ctx context.Context) {
	l := &tb.live
	l.mu.Lock()
	listed, recent := l.listed, time.Since(l.changed) < relistWithin
	l.mu.Unlock()
	if listed == nil || !recent {
		return
	}
	limit := time.NewTimer(relistWithin)
	defer limit.Stop()
	select {
	case <-limit.C:
		return
	case <-ctx.Done():
		return
	case <-listed:
	}
	limit.Reset(relistGrace)
	select {
	case <-limit.C:
	case <-ctx.Done():
	}
}
