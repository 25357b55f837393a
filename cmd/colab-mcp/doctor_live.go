package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/notebook"
	"colab-mcp/state"
)

// live opens a notebook as the server would and tries it out. What it found
// goes to add, the wire to the transcript.
func (c doctorCmd) live(ctx context.Context, s *settings, add func(check)) (err error) {
	link := bridge.ScratchLink()
	if c.Notebook != "" {
		if link, err = bridge.ParseLink(c.Notebook); err != nil {
			return fmt.Errorf("--notebook: %w", err)
		}
	}
	path, err := absolute(c.Transcript)
	if err != nil {
		return err
	}
	file, err := state.Create(path, 0o600, c.Force)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: move it away, name another --transcript, or add --force", tilde(path))
	}
	if err != nil {
		return err
	}
	defer file.Abort()

	id := bridge.NewIdentity(int(s.Port))
	secrets := &state.Redactor{}
	secrets.Add(id.Token)
	t := newTranscript(file, secrets)
	where := "a scratch notebook"
	if c.Notebook != "" {
		where = "a notebook of the user's"
	}
	t.fact("colab-mcp", versionText())
	t.fact("opened", where)

	launcher, err := bridge.NewLauncher(s.Browser)
	if err != nil {
		return err
	}
	defer launcher.Close()
	b := bridge.New(bridge.Options{
		Identity: id, Pinned: s.Port != 0, Version: version, NoReopen: true,
		UITimeout: time.Duration(s.UITimeout), Browse: launcher.Open, Trace: t.frame,
		OnIdentity: func(id bridge.Identity, _ bridge.Link) { secrets.Add(id.Token) },
	})
	p := &probe{ctx: ctx, bridge: b, notebook: notebook.New(nil, nil)}
	found := func(ch check) {
		t.fact(ch.Name, string(ch.Verdict)+": "+ch.Detail)
		add(ch)
	}
	if p.tab = connect(ctx, b, link, found); p.tab != nil {
		p.hello, p.add = t.hello(), found
		p.all()
	}
	b.Close() // no frame comes any more, and a run that is not answered ends
	p.runs.Wait()
	if t.err != nil {
		return fmt.Errorf("transcript: %w", t.err)
	}
	if err := file.Commit(); err != nil {
		return fmt.Errorf("transcript: %w", err)
	}
	add(check{"transcript", fine, tilde(path) + " can be attached to a report: it has no token and none of your cells' text", ""})
	return ctx.Err()
}

// connect opens the notebook and waits for its user, nil if nobody came.
func connect(ctx context.Context, b *bridge.Bridge, link bridge.Link, add func(check)) *bridge.Tab {
	fmt.Fprintln(os.Stderr, "opening a notebook: press Connect in its dialog")
	ask := bridge.Ask{Link: &link}
	got, err := b.Open(ctx, ask)
	if err == nil && !got.Ready {
		// The browser could not be started: a person can.
		fmt.Fprintf(os.Stderr, "%s\nopen this in a browser on this machine, it is for you alone:\n  %s\n", got.Causes[0], got.Manual)
		got, err = b.Open(ctx, ask)
	}
	switch {
	case err != nil:
		add(check{"connection", failing, err.Error(), "See above"})
	case !got.Ready:
		add(check{"connection", failing, fmt.Sprintf("no tab in %s", ago(got.Waited)), got.Causes[0]})
	default:
		add(check{"connection", fine, fmt.Sprintf("the tab was ready after %.1f s", got.Waited.Seconds()), ""})
		return b.Live()
	}
	return nil
}

// probe tries a tab out in cells of its own.
type probe struct {
	ctx      context.Context
	bridge   *bridge.Bridge
	tab      *bridge.Tab
	hello    json.RawMessage
	notebook *notebook.Notebook
	add      func(check)
	ours     []string // cells that are to be deleted
	size     int      // cells in the notebook before
	runs     sync.WaitGroup
}

// all does every step that can be done, and takes its cells away whatever
// happened.
func (p *probe) all() {
	defer p.tidy()
	for _, s := range probeSteps {
		detail, err := s.do(p)
		switch {
		case p.ctx.Err() != nil:
			p.add(check{s.name, failing, "interrupted", "Run it again"})
			return
		case err != nil:
			p.add(check{s.name, weight(s.must), err.Error(), "Attach the transcript to a report"})
		default:
			p.add(check{s.name, fine, detail, ""})
		}
		select {
		case <-p.tab.Gone():
			p.add(check{"connection", failing, fmt.Sprintf("the tab left: %v", p.tab.Why()), "Run it again; if it leaves at the same step, attach the transcript to a report"})
			return
		default:
		}
	}
}

// weight is how bad a step is that failed.
func weight(must bool) verdict {
	if must {
		return failing
	}
	return doubt
}

// tidy deletes what the steps have added.
func (p *probe) tidy() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), netTime)
	defer cancel()
	p.ctx = ctx // the steps' may have ended
	var left error
	for _, id := range slices.Clone(p.ours) {
		left = errors.Join(left, p.remove(id))
	}
	if left != nil {
		p.add(check{"clean-up", doubt, fmt.Sprintf("%d cells of ours may be left: %v", len(p.ours), left), "Delete the cells that begin with: # colab-mcp doctor"})
		return
	}
	cells, err := notebook.List(ctx, p.tab)
	if err == nil && len(cells) != p.size {
		err = fmt.Errorf("there are %d cells, before there were %d", len(cells), p.size)
	}
	if err != nil {
		p.add(check{"clean-up", doubt, err.Error(), "Look at the notebook"})
		return
	}
	p.add(check{"clean-up", fine, "the notebook has the cells it had", ""})
}

// told is what a tool said: a payload, or a refusal in one of two forms.
type told struct {
	raw     json.RawMessage
	payload map[string]json.RawMessage // raw, taken apart
	form    string                     // "", "isError" or "JSON-RPC error CODE"
	text    string                     // of a refusal
	took    time.Duration
}

// call asks a tool that runs no code.
func (p *probe) call(tool string, args map[string]any) (told, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return told{}, err
	}
	began := time.Now()
	result, err := p.tab.Call(p.ctx, tool, raw, nil)
	return tell(tool, result, err, time.Since(began))
}

// run runs one cell. A tab that never answers is left at the end of ctx, and
// hung up on by who made the bridge.
func (p *probe) run(id string) (told, error) {
	select {
	case a := <-p.start(id):
		return a.told, a.err
	case <-p.ctx.Done():
		return told{}, p.ctx.Err()
	}
}

// answered is how a run ended.
type answered struct {
	told told
	err  error
}

// start begins a run and looks at no ctx: tidy puts another in its place.
func (p *probe) start(id string) <-chan answered {
	began := time.Now()
	answer := make(chan answered, 1)
	p.runs.Go(func() {
		result, err := p.tab.Run(bridge.RunCodeCell, json.RawMessage(fmt.Sprintf(`{"cellId":%q}`, id)), nil)
		t, err := tell(bridge.RunCodeCell, result, err, time.Since(began))
		answer <- answered{t, err}
	})
	return answer
}

func tell(tool string, result json.RawMessage, err error, took time.Duration) (told, error) {
	t := told{took: took}
	var said *bridge.RPCError
	if errors.As(err, &said) {
		t.form, t.text = fmt.Sprintf("JSON-RPC error %d", said.Code), said.Message
		return t, nil
	}
	if err != nil {
		return t, err
	}
	payload, err := notebook.Payload(tool, result)
	var refused *bridge.ToolError
	if errors.As(err, &refused) {
		t.form, t.text = "isError", refused.Text
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t.raw = payload
	t.payload, err = bridge.Fields(payload)
	return t, err
}

// refusal says how a call was answered that had to be refused.
func (t told) refusal() string {
	if t.form == "" {
		return "taken without a word"
	}
	return fmt.Sprintf("%s %q", t.form, cut(t.text))
}

// must is the payload of a call that had to work.
func (t told) must(err error) (map[string]json.RawMessage, error) {
	if err == nil && t.form != "" {
		err = errors.New(t.refusal())
	}
	return t.payload, err
}

// cell adds a cell of ours at the end, which asking past it means.
func (p *probe) cell(code string) (id string, err error) {
	t, err := p.call(bridge.AddCodeCell, map[string]any{"cellIndex": 9999, "language": "python", "code": "# colab-mcp doctor\n" + code})
	payload, err := t.must(err)
	if err != nil {
		return "", fmt.Errorf("add_code_cell: %w", err)
	}
	if err := json.Unmarshal(payload["newCellId"], &id); err != nil || id == "" {
		return "", errors.New("add_code_cell: no newCellId")
	}
	p.ours = append(p.ours, id)
	return id, nil
}

func (p *probe) remove(id string) error {
	t, err := p.call(bridge.DeleteCell, map[string]any{"cellId": id})
	if _, err := t.must(err); err != nil {
		return fmt.Errorf("delete_cell: %w", err)
	}
	p.ours = slices.DeleteFunc(p.ours, func(o string) bool { return o == id })
	return nil
}

// once adds a cell, runs it and deletes it. It returns the cell as it was read
// after the run, and the run.
func (p *probe) once(code string) (after notebook.Cell, ran told, err error) {
	id, err := p.cell(code)
	if err != nil {
		return after, ran, err
	}
	ran, err = p.run(id)
	if _, err := ran.must(err); err != nil {
		return after, ran, fmt.Errorf("run_code_cell: %w", err)
	}
	after, ok, err := notebook.Find(p.ctx, p.tab, id, p.size)
	if err == nil && !ok {
		err = errors.New("get_cells does not list the cell that was run")
	}
	if err != nil {
		return after, ran, err
	}
	return after, ran, p.remove(id)
}
