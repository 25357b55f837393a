package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
)

// These tests are the whole way, with real parts only: the program as a
// process, a page in Chromium whose origin truly is Colab's, and an ipykernel.
// The page is a stand-in (testdata/colab) and does what is known of Colab's.

const (
	opener      = "open_colab_browser_connection"
	aNotebook   = "https://colab.research.google.com/drive/1AbCdEfGhIjKlMnOpQrStUvWxYz012345"
	another     = "https://colab.research.google.com/drive/1ZyXwVuTsRqPoNmLkJiHgFeDcBa543210"
	staleReason = "old token"
)

// scene is an agent, a browser, and the way of links between them.
type scene struct {
	*agent
	browser *chromium
	links   <-chan string
}

func startScene(t *testing.T, arguments ...string) *scene {
	t.Helper()
	browser := startChromium(t, startStandIn(t))
	return newScene(t, browser, arguments...)
}

func newScene(t *testing.T, browser *chromium, arguments ...string) *scene {
	t.Helper()
	command, links := handedOver(t)
	return &scene{startAgent(t, append(arguments, "--browser", command)...), browser, links}
}

// link is the next one that the program gives its browser.
func (s *scene) link() string {
	s.t.Helper()
	select {
	case link := <-s.links:
		return link
	case <-time.After(patience):
		s.t.Fatal("no link was opened")
		return ""
	}
}

type opened struct {
	Result   bool     `json:"result"`
	State    string   `json:"state"`
	Notebook string   `json:"notebook_url"`
	Causes   []string `json:"causes"`
	Manual   string   `json:"manual_url"`
}

// connect opens a notebook the way a user sees it: the opener, a new tab, the
// dialog, a click.
func (s *scene) connect(notebook string) (*page, string) {
	s.t.Helper()
	opening := s.begin(opener, args{"notebook_url": notebook})
	link := s.link()
	p := s.browser.open(link)
	p.accept()
	var got opened
	opening.answer().into(&got)
	if !got.Result || got.State != "ready" || got.Notebook != notebook {
		s.t.Fatalf("opened: %+v", got)
	}
	return p, link
}

type status struct {
	Connected bool   `json:"connected"`
	Dropped   string `json:"last_drop"`
}

// until asks for the status until it is as wanted. What it waits for is on its
// way: the page has connected or left.
func (s *scene) until(connected bool) status {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		var st status
		s.call("colab_connection_status", nil).into(&st)
		if st.Connected == connected {
			return st
		}
		if time.Now().After(end) {
			s.t.Fatalf("connected did not become %v: %+v", connected, st)
		}
	}
}

// ready waits until the program has the tab of p, which was accepted. Unlike
// the opener it cannot cause a tab.
func (s *scene) ready(p *page) {
	s.t.Helper()
	p.reaches("connected")
	s.until(true)
}

// dropped waits until the program has no tab, and returns why.
func (s *scene) dropped() string {
	s.t.Helper()
	return s.until(false).Dropped
}

// addCell adds a code cell at the end and returns its id.
func (s *scene) addCell(code string) string {
	s.t.Helper()
	var added struct {
		ID string `json:"newCellId"`
	}
	s.call("add_code_cell", args{"code": code}).into(&added)
	return added.ID
}

// The main job: open, accept, look, write, run, see a plot.
func TestChromiumRunsTheMainJob(t *testing.T) {
	s := startScene(t)
	opening := s.begin(opener, args{"notebook_url": aNotebook})
	link := s.link()
	p := s.browser.open(link)
	p.screenshot("dialog.png")

	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := url.ParseQuery(u.Fragment)
	if err != nil {
		t.Fatal(err)
	}
	token, port := keys.Get("mcpProxyToken"), keys.Get("mcpProxyPort")
	if got := look[string](p, `document.querySelector("#secret").value`); got != token+"&"+port {
		t.Errorf("the dialog shows %q, the link says %q and %q", got, token, port)
	}
	if got := look[string](p, "location.origin"); got != "https://colab.research.google.com" {
		t.Errorf("origin = %s", got)
	}
	p.accept()
	var got opened
	opening.answer().into(&got)
	if !got.Result || got.State != "ready" || got.Manual != "" {
		t.Fatalf("opened: %+v", got)
	}

	var outline struct {
		Total int `json:"total"`
	}
	s.call("get_notebook_outline", nil).into(&outline)
	if outline.Total != 1 { // a fresh notebook has one empty cell
		t.Errorf("outline: %+v", outline)
	}
	var added struct {
		ID string `json:"newCellId"`
	}
	s.call("add_text_cell", args{"content": "# A picture", "cellIndex": 0}).into(&added)

	picture := square(t)
	code := fmt.Sprintf("import base64\nfrom IPython.display import Image\nprint('six by', 7)\nImage(base64.b64decode('%s'))",
		base64.StdEncoding.EncodeToString(picture))
	var ran struct {
		Status string `json:"status"`
		Stdout string `json:"stdout"`
		Images int    `json:"images"`
	}
	res := s.call("run_code", args{"code": code})
	res.into(&ran)
	if ran.Status != "ok" || ran.Stdout != "six by 7\n" || ran.Images != 1 {
		t.Errorf("run_code: %+v", ran)
	}
	if len(res.Content) != 2 || res.Content[1].Type != "image" || res.Content[1].Data != base64.StdEncoding.EncodeToString(picture) {
		t.Errorf("run_code: the second block is not the picture: %.300s", res.Raw)
	}

	kept, wrong := s.addCell(code), s.addCell("1/0")
	var cells struct {
		Status string                    `json:"status"`
		Cells  []struct{ Status string } `json:"cells"`
	}
	s.call("run_cells", args{"cell_ids": []string{kept, wrong}}).into(&cells)
	if cells.Status != "error" || len(cells.Cells) != 2 || cells.Cells[0].Status != "ok" || cells.Cells[1].Status != "error" {
		t.Errorf("run_cells: %+v", cells)
	}
	p.steps( // the user sees it, too
		chromedp.WaitVisible(chromedp.CSS(fmt.Sprintf("[data-id=%q] img", kept))),
		chromedp.WaitVisible(chromedp.CSS(fmt.Sprintf("[data-id=%q] .error", wrong))))
	p.screenshot("notebook.png")

	if err := s.close(); err != nil {
		t.Error(err)
	}
	p.reaches("closed")
	if strings.Contains(s.log()+s.stderr.String(), token) { // S4
		t.Error("the token is in the log or on stderr")
	}
}

// square is a picture.
func square(t *testing.T) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 160, 100))
	for x := range 160 {
		for y := range 100 {
			img.Set(x, y, color.RGBA{uint8(x), uint8(2 * y), 180, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// C9: an answer of 16 MiB arrives as the page sent it.
func TestChromiumRelaysLargeAnswersUnchanged(t *testing.T) {
	s := startScene(t, "--soft-limit", "10m")
	p, _ := s.connect(aNotebook)
	const lines = 12_000
	const odd = `<b>é&\"\\\t\u2028 🚀 9007199254740993 ` // alike as a literal of Python and of Go
	id := s.addCell(fmt.Sprintf(`print("".join(f"%%06d " %% i + "%s" * 18 + "\n" for i in range(%d)), end="")`, odd, lines))
	printed, err := strconv.Unquote(`"` + odd + `"`)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "%06d %s\n", i, strings.Repeat(printed, 18))
	}

	check := func(res answer, outputs func(structured json.RawMessage) []streamOutput) {
		t.Helper()
		if res.IsError || len(res.Raw) < 16<<20 {
			t.Fatalf("%s: %d bytes: %.300s", res.tool, len(res.Raw), res.Raw)
		}
		sum := sha256.Sum256(res.Raw)
		if sent := look[[]string](p, "digests()"); !slices.Contains(sent, hex.EncodeToString(sum[:])) {
			t.Errorf("%s: the answer is not what the page sent", res.tool)
		}
		var text strings.Builder
		for _, o := range outputs(res.Structured) {
			text.WriteString(strings.Join(o.Text, ""))
		}
		if text.String() != want.String() {
			t.Errorf("%s: not the text that was printed: %d bytes, want %d", res.tool, text.Len(), want.Len())
		}
	}
	check(s.call("run_code_cell", args{"cellId": id}), func(raw json.RawMessage) []streamOutput {
		return decode[struct{ Outputs []streamOutput }](t, raw).Outputs
	})
	check(s.call("get_cells", args{"includeOutputs": true}), func(raw json.RawMessage) []streamOutput {
		cells := decode[struct {
			Cells []struct {
				ID      string
				Outputs []streamOutput
			}
		}](t, raw).Cells
		return cells[len(cells)-1].Outputs
	})
}

type streamOutput struct{ Text []string }

func decode[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// held is a cell that runs until the test lets it end.
type held struct {
	t    *testing.T
	Code string
	l    *net.TCPListener
	conn net.Conn
}

func holdCell(t *testing.T) *held {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &held{t: t, l: l.(*net.TCPListener)}
	h.Code = fmt.Sprintf("import socket\nprint('begun')\nsocket.create_connection(('127.0.0.1', %d)).recv(1)\nprint('ended')", h.l.Addr().(*net.TCPAddr).Port)
	t.Cleanup(h.release)
	return h
}

// runs waits until the cell runs.
func (h *held) runs() {
	h.t.Helper()
	h.l.SetDeadline(time.Now().Add(patience))
	var err error
	if h.conn, err = h.l.Accept(); err != nil {
		h.t.Fatalf("the cell did not begin: %v", err)
	}
}

func (h *held) release() {
	h.l.Close()
	if h.conn != nil {
		h.conn.Close()
	}
}

type job struct {
	ID     string `json:"job_id"`
	Status string `json:"status"`
	Cells  []struct {
		ID, Status, Stdout string
	} `json:"cells"`
}

// L3: the tab is closed while a cell runs, and opened again when it has ended.
func TestChromiumFindsTheJobOfATabThatWasClosed(t *testing.T) {
	s := startScene(t)
	p, _ := s.connect(aNotebook)
	cell := holdCell(t)
	id := s.addCell(cell.Code)
	running := s.begin("run_cells", args{"cell_ids": []string{id}})
	cell.runs()

	p.close()
	// The cell is held: what answers now is the drop.
	if res := running.answer(); res.code() != "outcome_unknown" {
		t.Fatalf("run_cells: %s", res.text())
	}
	var list struct{ Jobs []job }
	s.call("list_jobs", nil).into(&list)
	if len(list.Jobs) != 1 || list.Jobs[0].Status != "lost" {
		t.Fatalf("jobs: %+v", list.Jobs)
	}
	if why := s.dropped(); !strings.Contains(why, "1001") {
		t.Errorf("the tab was closed: %q", why)
	}

	cell.release()
	opening := s.begin(opener, args{"notebook_url": aNotebook})
	p = s.browser.open(s.link())
	p.steps(chromedp.WaitReady(chromedp.CSS(fmt.Sprintf(`[data-id=%q][data-count="1"]`, id)))) // it has ended
	p.accept()
	var got opened
	opening.answer().into(&got)
	if !got.Result {
		t.Fatalf("opened again: %+v", got)
	}
	found := s.job(list.Jobs[0].ID, "done")
	if len(found.Cells) != 1 || found.Cells[0].ID != id || found.Cells[0].Stdout != "begun\nended\n" {
		t.Errorf("the job that was lost: %+v", found)
	}
}

// job waits until a job has a status.
func (s *scene) job(id, status string) job {
	s.t.Helper()
	var j job
	for end := time.Now().Add(patience); ; {
		s.call("job_status", args{"job_id": id}).into(&j)
		if j.Status == status {
			return j
		}
		if time.Now().After(end) {
			s.t.Fatalf("job %s did not become %s: %+v", id, status, j)
		}
	}
}

// A page that is loaded again says 1001, asks its user again, and the same
// link works.
func TestChromiumReloadsThePage(t *testing.T) {
	s := startScene(t)
	p, _ := s.connect(aNotebook)
	id := s.addCell("x = 41")
	s.call("run_cells", args{"cell_ids": []string{id}})

	p.reload()
	if why := s.dropped(); !strings.Contains(why, "1001") {
		t.Errorf("the page was loaded again: %q", why)
	}
	p.enter()
	s.ready(p)
	var ran struct{ Result string }
	s.call("run_code", args{"code": "x + 1"}).into(&ran)
	if ran.Result != "42" {
		t.Errorf("run_code after a reload: %+v", ran)
	}
}

// L4: a second tab is told why it cannot connect, and the first works on.
func TestChromiumTurnsASecondTabAway(t *testing.T) {
	s := startScene(t)
	first, link := s.connect(aNotebook)
	for range 3 {
		second := s.browser.open(link)
		second.accept()
		second.reaches("closed")
		if got := second.status(); !strings.Contains(got, "1013") || !strings.Contains(got, "only one notebook") {
			t.Errorf("the second tab says %q", got)
		}
	}
	var ran struct{ Result string }
	s.call("run_code", args{"code": "6 * 7"}).into(&ran)
	if ran.Result != "42" {
		t.Errorf("run_code in the first tab: %+v", ran)
	}
	if got := look[string](first, "document.documentElement.dataset.state"); got != "connected" {
		t.Errorf("the first tab is %s", got)
	}
}

// L9, L10: the tab of a notebook that was left is refused, and the opener
// knows of it.
func TestChromiumRefusesAStaleTab(t *testing.T) {
	s := startScene(t, "--ui-timeout", "500ms")
	s.begin(opener, args{"notebook_url": aNotebook})
	old := s.browser.open(s.link())
	old.accept()
	s.ready(old)

	opening := s.begin(opener, args{"notebook_url": another})
	fresh := s.link()
	old.reaches("closed")
	if got := old.status(); !strings.Contains(got, "4001") {
		t.Errorf("the tab that was left says %q", got)
	}
	old.reload()
	old.accept()
	old.reaches("closed")
	if got := old.status(); !strings.Contains(got, "1006") { // a page learns no more of a refusal
		t.Errorf("the stale tab says %q", got)
	}
	opening.answer()

	got := s.waits(another)
	if !slices.ContainsFunc(got.Causes, func(c string) bool { return strings.Contains(c, staleReason) }) {
		t.Errorf("no cause names the stale tab: %q", got.Causes)
	}
	p := s.browser.open(fresh)
	p.accept()
	s.ready(p)
}

// waits calls the opener again while nobody accepts.
func (s *scene) waits(notebook string) opened {
	s.t.Helper()
	var got opened
	s.call(opener, args{"notebook_url": notebook}).into(&got)
	if got.Result || got.State != "waiting" || len(got.Causes) == 0 || got.Manual == "" {
		s.t.Fatalf("opener: %+v", got)
	}
	return got
}

// L10: with the local network permission denied the page is stopped before a
// byte is sent. The opener names Chrome's prompt and the way back; once that
// is gone, the same link connects.
func TestChromiumWithoutThePermission(t *testing.T) {
	host := startStandIn(t)
	// A page from this machine needs no permission: Chromium is told that the
	// host is elsewhere.
	b := startChromium(t, host, chromedp.Flag("ip-address-space-overrides", host.addr+"=public"))
	b.permit(browser.PermissionSettingDenied)
	s := newScene(t, b, "--ui-timeout", "500ms")

	opening := s.begin(opener, args{"notebook_url": aNotebook})
	link := s.link()
	p := b.open(link)
	p.accept()
	p.reaches("closed")
	if got := p.status(); !strings.Contains(got, "1006") {
		t.Errorf("the page says %q", got)
	}
	opening.answer()
	got := s.waits(aNotebook)
	if !slices.ContainsFunc(got.Causes, func(c string) bool {
		return strings.Contains(c, "Access other apps and services on this device") && strings.Contains(c, "Site settings")
	}) {
		t.Errorf("no cause names the permission and how to reset it: %q", got.Causes)
	}
	if got.Manual != link {
		t.Errorf("manual_url is not the link that was opened")
	}

	b.permit(browser.PermissionSettingGranted)
	p = b.open(link)
	p.accept()
	s.ready(p)
	select {
	case <-s.links:
		t.Error("a repeat opened a second tab")
	default:
	}
}
