package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	handshakeTimeout = 30 * time.Second
	maxPages         = 50      // of one tool list
	maxTools         = 1000    // in one tool list
	maxHello         = 2 << 10 // bytes that a page may say of itself, for status and log
	settle           = 100 * time.Millisecond
)

// wantVersion is the protocol version offered to the tab; any answer is taken.
const wantVersion = "2025-06-18"

// handshake makes the socket an MCP session: initialize, initialized, and the
// tool list. phase is told what is being waited for.
func (t *Tab) handshake(ctx context.Context, client string, phase func(string)) error {
	phase("initialize")
	raw, err := t.ask(ctx, "initialize", fmt.Appendf(nil,
		`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"colab-mcp","version":%q}}`, wantVersion, client))
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	var hello struct {
		ProtocolVersion string          `json:"protocolVersion"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
	}
	if err := lenient(raw, &hello); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if len(hello.ProtocolVersion)+len(hello.ServerInfo) <= maxHello {
		t.version, t.server = hello.ProtocolVersion, hello.ServerInfo
	}
	if err := t.peer.send(ctx, message(0, "notifications/initialized", nil)); err != nil {
		return err
	}
	phase("tools/list")
	tools, err := t.list(ctx)
	if err != nil && !errors.Is(err, errEndless) {
		return fmt.Errorf("tools/list: %w", err)
	}
	t.setTools(tools)
	return nil
}

// lenient decodes what has the expected type and leaves out the rest: pages
// send more than anybody has written down.
func lenient(raw json.RawMessage, v any) error {
	err := json.Unmarshal(raw, v)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		return nil
	}
	return err
}

// ask is a plain request whose answer is waited for until ctx ends.
func (t *Tab) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c, err := t.peer.start(ctx, method, func(int64) json.RawMessage { return params }, nil)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-c.answer:
		return a.result, a.err
	case <-t.peer.done:
		return nil, ErrTabGone
	case <-ctx.Done():
		t.peer.forget(c)
		return nil, ctx.Err()
	}
}

// errEndless comes with the part of a tool list that was read before its
// pages passed the bounds or began again.
var errEndless = errors.New("the tab's list has no end")

// list reads the whole tool list.
func (t *Tab) list(ctx context.Context) ([]Tool, error) {
	var tools []Tool
	seen := map[string]bool{}
	params := json.RawMessage(nil)
	for range maxPages {
		raw, err := t.ask(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools  []Tool `json:"tools"`
			Cursor string `json:"nextCursor"`
		}
		if err := lenient(raw, &page); err != nil {
			return nil, err
		}
		for _, tool := range page.Tools {
			known := slices.ContainsFunc(tools, func(o Tool) bool { return o.Name == tool.Name })
			if tool.Name != "" && !known && len(tools) < maxTools {
				tools = append(tools, tool)
			}
		}
		if page.Cursor == "" {
			if len(tools) == 0 {
				return nil, errors.New("the tab lists no tools")
			}
			return tools, nil
		}
		if seen[page.Cursor] {
			break
		}
		seen[page.Cursor] = true
		cursor, _ := json.Marshal(page.Cursor)
		params = fmt.Appendf(nil, `{"cursor":%s}`, cursor)
	}
	return tools, errEndless
}

// keepTools follows the tab's tool list until the connection ends. Bursts of
// announcements become one question; a list that is empty, endless or does not
// come leaves the last good one.
func (t *Tab) keepTools(changed func()) {
	for {
		select {
		case <-t.peer.done:
			return
		case <-t.refresh:
		}
		quiet := time.NewTimer(settle)
		select {
		case <-t.peer.done:
			quiet.Stop()
			return
		case <-quiet.C:
		}
		select { // what came meanwhile is covered by the question below
		case <-t.refresh:
		default:
		}
		ctx, stop := context.WithTimeout(context.Background(), handshakeTimeout)
		tools, err := t.list(ctx)
		stop()
		if err != nil {
			t.log.Warn("tool list not refreshed, the last one stays", "err", err)
			continue
		}
		t.setTools(tools)
		changed()
	}
}

// notified is called by the peer's reader for every notification.
func (t *Tab) notified(method string, params json.RawMessage) {
	switch method {
	case "notifications/tools/list_changed":
		select {
		case t.refresh <- struct{}{}:
		default:
		}
	case "notifications/message":
		t.onLog(params)
	}
}

// Tools is the live tool list, in the tab's order.
func (t *Tab) Tools() []Tool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tools
}

func (t *Tab) setTools(tools []Tool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tools, t.parsed = tools, map[string]parsedTool{}
}

// parsedTool is what every call of a tool needs of its definition.
type parsedTool struct {
	params Params
	filled map[string]json.RawMessage // see defaults
	opaque bool                       // nothing is said of its parameters
}

// parse is a tool's definition as its calls need it, if the tab lists the
// tool. It is not the caller's to change.
func (t *Tab) parse(name string) (p parsedTool, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok = t.parsed[name]; ok {
		return p, true
	}
	i := slices.IndexFunc(t.tools, func(o Tool) bool { return o.Name == name })
	if i < 0 {
		return p, false
	}
	schema := t.tools[i].InputSchema
	p.params, p.opaque = ParseParams(schema), undescribed(schema)
	p.filled = defaults(name, p.params)
	p.params.relax(p.filled)
	t.parsed[name] = p
	return p, true
}

// Needs returns a *[MissingToolError] unless the tab lists all these tools. An
// operation of several calls asks before the first.
func (t *Tab) Needs(tools ...string) error {
	for _, name := range tools {
		if _, ok := t.Lists(name); !ok {
			return &MissingToolError{name, names(t.Tools())}
		}
	}
	return nil
}

// Lists reports the live definition of a tool, if the tab lists it.
func (t *Tab) Lists(name string) (Tool, bool) {
	tools := t.Tools()
	i := slices.IndexFunc(tools, func(o Tool) bool { return o.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return tools[i], true
}
