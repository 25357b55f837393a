package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// chromium is a headless Chromium for which the stand-in is Colab's host and
// nothing else but this machine exists.
type chromium struct {
	t     testing.TB
	ctx   context.Context
	pages int
}

// startChromium skips the test where there is none. flags are added to its
// command line.
func startChromium(t testing.TB, host *standIn, flags ...chromedp.ExecAllocatorOption) *chromium {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		requireReal(t, "no chromium, chromium-browser or google-chrome on the PATH (Debian: apt-get install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.WindowSize(1000, 900),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("ignore-certificate-errors-spki-list", host.spki),
		chromedp.Flag("host-resolver-rules", fmt.Sprintf("MAP %s %s, MAP * ~NOTFOUND, EXCLUDE localhost", colabHost, host.addr)),
	)
	// Whatever else it writes goes with its profile. Short, for the sockets in it.
	home, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+home))
	allocator, release := chromedp.NewExecAllocator(context.Background(), append(options, flags...)...)
	ctx, closeAll := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		soon, stop := context.WithTimeout(ctx, patience)
		defer stop()
		if err := chromedp.Cancel(soon); err != nil {
			t.Errorf("end Chromium: %v", err)
		}
		closeAll()
		release() // the process is reaped; those that it started may write on for a moment
		waitFor(t, "nothing in Chromium's home", func() bool { return os.RemoveAll(home) == nil })
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &chromium{t: t, ctx: ctx}
}

// permit answers Chromium's question whether Colab's pages may connect to
// this machine: granted, denied or prompt.
func (c *chromium) permit(setting browser.PermissionSetting) {
	c.t.Helper()
	_, err := chromedp.CallBrowser(c.ctx, browser.SetPermission, browser.SetPermissionParams{
		Origin: "https://" + colabHost, Permission: &browser.PermissionDescriptor{Name: "loopback-network"}, Setting: setting,
	})
	if err != nil {
		c.t.Fatalf("set the permission to %s: %v", setting, err)
	}
}

// page is one tab of the browser. A test that fails leaves a screenshot of
// each among its artifacts (go test -artifacts).
type page struct {
	t     testing.TB
	ctx   context.Context
	leave func()
}

// open opens link in a new tab, up to the dialog.
func (c *chromium) open(link string) *page {
	c.t.Helper()
	ctx, leave := chromedp.NewContext(c.ctx)
	p := &page{t: c.t, ctx: ctx, leave: leave}
	c.pages++
	name := fmt.Sprintf("page-%d.png", c.pages)
	c.t.Cleanup(func() {
		if c.t.Failed() && ctx.Err() == nil {
			p.screenshot(name)
		}
		leave()
	})
	if err := chromedp.Do(ctx); err != nil { // makes the tab, with the life of ctx
		c.t.Fatalf("open a tab: %v", err)
	}
	// Else DevTools brings every frame of every WebSocket here, too.
	if _, err := chromedp.Call(ctx, network.Disable, cdp.Empty{}); err != nil {
		c.t.Fatal(err)
	}
	p.steps(chromedp.Navigate(link))
	p.reaches("asking")
	return p
}

// steps runs steps in the page.
func (p *page) steps(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := p.try(steps...); err != nil {
		p.t.Fatalf("in the page: %v", err)
	}
}

func (p *page) try(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	return chromedp.Do(ctx, steps...)
}

// look evaluates a JavaScript expression, a promise included.
func look[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("in the page: %s: %v", expression, err)
	}
	return v
}

// reaches waits until the page is in a state; page.js names them.
func (p *page) reaches(state string) {
	p.t.Helper()
	if err := p.try(chromedp.WaitReady(chromedp.CSS(fmt.Sprintf("html[data-state=%q]", state)))); err != nil {
		p.t.Fatalf("the page did not become %q: %v", state, err)
	}
}

// status is what the page tells its user about the connection.
func (p *page) status() string {
	p.t.Helper()
	return look[string](p, `document.querySelector("#status").textContent`)
}

// accept presses Connect in the dialog.
func (p *page) accept() {
	p.t.Helper()
	p.steps(chromedp.Click(chromedp.CSS("#connect")))
}

// enter presses Enter in the dialog, which does the same.
func (p *page) enter() {
	p.t.Helper()
	p.steps(chromedp.KeyEvent(kb.Enter))
}

// reload loads the page again, up to the dialog.
func (p *page) reload() {
	p.t.Helper()
	p.steps(chromedp.Reload())
	p.reaches("asking")
}

// close closes the tab.
func (p *page) close() { p.leave() }

// screenshot saves what the page looks like as an artifact of the test.
func (p *page) screenshot(name string) {
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(p.t.ArtifactDir(), name), png, 0o666)
	}
	if err != nil {
		p.t.Logf("no screenshot: %v", err)
	}
}
