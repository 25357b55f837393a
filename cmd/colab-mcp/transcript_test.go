package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"colab-mcp/bridge/localtab"
	"colab-mcp/state"
)

// Transcripts of real tabs are played to the stand-in, whose answers must have
// the same form. A new one needs no code: put it beside localtab.jsonl, which
// was made in / by
//
//	colab-mcp doctor --live --browser "colab-mcp tab" --transcript FILE
func TestStandInAnswersAsTranscriptsSay(t *testing.T) {
	python, err := localtab.FindPython("")
	if err != nil || exec.Command(python, "-c", "import ipykernel, jupyter_client").Run() != nil {
		requireReal(t, "there is no python3 with ipykernel")
	}
	files, err := filepath.Glob("testdata/transcripts/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts: ", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			r := newReplay(t)
			for i, l := range readTranscript(t, file) {
				if err := r.play(l); err != nil {
					t.Fatalf("%s:%d: %v", file, i+1, err)
				}
			}
			if r.compared < 20 {
				t.Errorf("only %d answers were compared", r.compared)
			}
		})
	}
}

func readTranscript(t *testing.T, file string) []line {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []line
	for lines := bufio.NewReader(f); ; {
		text, err := lines.ReadBytes('\n')
		if len(text) == 0 && err != nil {
			return list
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s: %v in %.80s", file, err, text)
		}
		list = append(list, l)
	}
}

// replay plays the bridge's part of a transcript to a stand-in.
type replay struct {
	conn     *websocket.Conn
	ids      map[string]string // cell ids of the transcript -> the stand-in's
	cut      map[string]bool   // cells (the transcript's ids) whose source is not all there
	skipped  map[string]bool   // requests that were not sent, by id
	came     map[string]line   // answers that nobody has looked at, by id
	live     *transcript       // makes the stand-in's frames into lines
	lines    *bytes.Buffer
	compared int
}

func newReplay(t *testing.T) *replay {
	t.Helper()
	conns := make(chan *websocket.Conn, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}, InsecureSkipVerify: true})
		if err != nil {
			t.Error(err)
			return
		}
		conns <- c
	}))
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().(*net.TCPAddr)
	tab, err := localtab.New(localtab.Options{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr.String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	far, err := tab.Dial(t.Context(), fmt.Sprintf("https://colab.research.google.com/#mcpProxyToken=x&mcpProxyPort=%d", addr.Port))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- tab.Serve(context.Background(), far) }()
	r := &replay{
		conn: <-conns, lines: &bytes.Buffer{},
		ids: map[string]string{}, cut: map[string]bool{}, skipped: map[string]bool{}, came: map[string]line{},
	}
	r.conn.SetReadLimit(-1)
	r.live = newTranscript(r.lines, &state.Redactor{})
	t.Cleanup(func() {
		r.conn.Close(websocket.StatusNormalClosure, "")
		<-served
		tab.Close()
	})
	return r
}

func (r *replay) play(l line) error {
	switch {
	case l.Dir == "out" && l.Method != "":
		return r.send(l)
	case l.Dir == "in" && l.Method != "" && (l.Result != nil || l.Error != nil):
		return r.answer(l)
	}
	return nil // a fact, or something of the tab's own accord
}

func (r *replay) send(l line) error {
	var p struct {
		Arguments struct{ CellID, Content, Code string }
	}
	json.Unmarshal(l.Params, &p)
	id := p.Arguments.CellID
	text := p.Arguments.Content + p.Arguments.Code
	if l.Tool == "update_cell" {
		r.cut[id] = strings.HasSuffix(text, " more")
	}
	if l.Tool == "add_code_cell" && strings.HasSuffix(text, " more") {
		r.cut[string(l.ID)] = true // until its id is known
	}
	if l.Tool == "run_code_cell" && r.cut[id] {
		r.skipped[string(l.ID)] = true // it would be another program
		return nil
	}
	params := string(l.Params)
	for theirs, ours := range r.ids {
		params = strings.ReplaceAll(params, fmt.Sprintf("%q", theirs), fmt.Sprintf("%q", ours))
	}
	params = strings.ReplaceAll(params, "time.sleep(6)", "time.sleep(0)") // what is looked at is the order
	frame := []byte(`{"jsonrpc":"2.0"`)
	if l.ID != nil {
		frame = fmt.Appendf(frame, `,"id":%s`, l.ID)
	}
	frame = fmt.Appendf(frame, `,"method":%q`, l.Method)
	if l.Params != nil {
		frame = fmt.Appendf(frame, `,"params":%s`, params)
	}
	frame = append(frame, '}')
	r.live.frame(true, frame)
	return r.conn.Write(context.Background(), websocket.MessageText, frame)
}

// answer waits for the answer to the same request and compares.
func (r *replay) answer(want line) error {
	id := string(want.ID)
	if r.skipped[id] {
		return nil
	}
	got, ok := r.came[id]
	for ; !ok; got, ok = r.came[id] {
		if err := r.read(); err != nil {
			return err
		}
	}
	delete(r.came, id)
	if want.Method == "initialize" {
		return nil // names and capabilities are the page's own
	}
	what := strings.TrimSpace(want.Method + " " + want.Tool)
	theirs, ours := added(want.Result), added(got.Result)
	if theirs != "" {
		if ours == "" {
			return fmt.Errorf("%s: no newCellId", what)
		}
		r.ids[theirs] = ours
		r.cut[theirs] = r.cut[id]
	}
	if want.Method != "tools/call" {
		return nil // the tool list is compared with the known one elsewhere
	}
	r.compared++
	if (want.Error == nil) != (got.Error == nil) {
		return fmt.Errorf("%s: refused in another form: %s%s, not %s%s", what, got.Error, got.Result, want.Error, want.Result)
	}
	return r.same(what, decodeAny(want.Result), decodeAny(got.Result))
}

func (r *replay) read() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, frame, err := r.conn.Read(ctx)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	r.lines.Reset()
	r.live.frame(false, frame)
	var l line
	if err := json.Unmarshal(r.lines.Bytes(), &l); err != nil {
		return err
	}
	if l.Method != "" && l.ID != nil {
		r.came[string(l.ID)] = l
	}
	return nil
}

func added(result json.RawMessage) string {
	var p struct {
		StructuredContent struct{ NewCellID string }
		Content           []struct{ JSON struct{ NewCellID string } }
	}
	json.Unmarshal(result, &p)
	if p.StructuredContent.NewCellID == "" && len(p.Content) > 0 {
		return p.Content[0].JSON.NewCellID
	}
	return p.StructuredContent.NewCellID
}

func decodeAny(raw json.RawMessage) any {
	var v any
	json.Unmarshal(raw, &v)
	return v
}

// same compares forms: keys, types, yes and no, which cells in which order.
// Text, numbers and what a library displays may differ.
func (r *replay) same(path string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if x, y := keysOf(want), keysOf(got); !ok || !slices.Equal(x, y) {
			return fmt.Errorf("%s: keys %v, not %v", path, y, x)
		}
		for k := range want {
			if k == "data" || k == "metadata" {
				continue
			}
			if err := r.same(path+"."+k, want[k], got[k]); err != nil {
				return err
			}
		}
	case []any:
		got, ok := got.([]any)
		if !ok {
			return fmt.Errorf("%s: %T, not a list", path, got)
		}
		if strings.HasSuffix(path, ".cells") && len(want) != len(got) {
			return fmt.Errorf("%s: %d, not %d", path, len(got), len(want))
		}
		for i := range min(len(want), len(got)) {
			if err := r.same(fmt.Sprintf("%s[%d]", path, i), want[i], got[i]); err != nil {
				return err
			}
		}
	case string:
		got, ok := got.(string)
		if ours, known := r.ids[want]; !ok || known && got != ours {
			return fmt.Errorf("%s: %v, not the cell that was %s", path, got, want)
		}
	case bool:
		if want != got {
			return fmt.Errorf("%s: %v, not %v", path, got, want)
		}
	default: // a count is null while the cell runs, and that is a matter of time
		switch got.(type) {
		case nil, float64:
		default:
			return fmt.Errorf("%s: %v, not %v", path, got, want)
		}
	}
	return nil
}

func keysOf(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// S4: a transcript that is attached to a report has no token and nothing of the
// user's own cells, and none is replaced by accident.
func TestTranscriptTellsNothingOfTheUsers(t *testing.T) {
	if _, err := localtab.FindPython(""); err != nil {
		requireReal(t, "there is no python3")
	}
	home := t.TempDir()
	notebook := filepath.Join(home, "mine.ipynb")
	const secret = "s3cr3t-of-the-user"
	before := fmt.Sprintf(`{"cells":[{"cell_type":"code","id":"mine-0000001","metadata":{"name":%[1]q},"execution_count":1,"source":["x = '%[1]s'"],
"outputs":[{"output_type":"stream","name":"stdout","text":[%[1]q]},{"output_type":"execute_result","execution_count":1,"metadata":{},"data":{"text/plain":[%[1]q]}},
{"output_type":"error","ename":%[1]q,"evalue":%[1]q,"traceback":[%[1]q]}]},
{"cell_type":"markdown","id":"mine-0000002","metadata":{},"source":["# %[1]s"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}`, secret)
	os.WriteFile(notebook, []byte(before), 0o600)
	args := []string{"doctor", "--live", "--json", "--notebook", "https://colab.research.google.com/drive/1AbCdEfGhIjKlMnOpQrStUvWxYz012345",
		"--browser", fmt.Sprintf("%q tab --notebook %q", binary(t), notebook)}
	out, errs, status := program(t, home, args...)
	if status != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	var r report
	json.Unmarshal([]byte(out), &r)
	for _, name := range []string{"connection", "run", "live output", "move", "files", "large cell", "clean-up"} {
		if i := slices.IndexFunc(r.Checks, func(c check) bool { return c.Name == name }); i < 0 || r.Checks[i].Verdict != fine {
			t.Errorf("%s is not fine: %s", name, out)
		}
	}
	path := filepath.Join(home, "colab-mcp-transcript.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) || strings.Contains(out+errs, secret) {
		t.Error("text of the user's cells is in the transcript")
	}
	if strings.Contains(string(text), "mcpProxyToken") || strings.Contains(string(text), "access_token") {
		t.Error("the transcript names a token")
	}
	lines := readTranscript(t, path)
	if !slices.ContainsFunc(lines, func(l line) bool { return strings.Contains(string(l.Result), "mine-0000001") }) {
		t.Error("the user's cells were not even seen: this test shows nothing")
	}
	if after, _ := os.ReadFile(notebook); strings.Count(string(after), secret) != strings.Count(before, secret) || strings.Contains(string(after), "colab-mcp doctor") {
		t.Errorf("the user's notebook is not as it was:\n%s", after)
	}
	_, errs, status = program(t, home, args...)
	if now, _ := os.ReadFile(path); status != 1 || !strings.Contains(errs, "is there already") || !bytes.Equal(now, text) {
		t.Errorf("a second run: %d %s", status, errs)
	}
}
