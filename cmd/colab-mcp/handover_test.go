package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// handOver is a browser command that brings a link to the test, which opens
// it in the browser that it has started already.
const handOver = "hand-over-link"

// handOverLink is that command: handOver URL LINK.
func handOverLink(argv []string) int {
	if len(argv) != 2 {
		fmt.Fprintf(os.Stderr, "usage: %s URL LINK\n", handOver)
		return 2
	}
	resp, err := http.Post(argv[0], "text/plain", strings.NewReader(argv[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return 1
	}
	return 0
}

// handedOver returns a value for --browser, and the links that it is given.
func handedOver(t testing.TB) (browser string, links <-chan string) {
	t.Helper()
	got := make(chan string, 16)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		link, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got <- string(link)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return handOver + " " + s.URL, got
}

// O4: the link arrives as the last argument of the command in --browser.
func TestBrowserCommandGetsTheLink(t *testing.T) {
	browser, links := handedOver(t)
	a := startAgent(t, "--browser", browser)
	opening := a.begin("open_colab_browser_connection", nil)
	if link := <-links; !strings.HasPrefix(link, "https://colab.research.google.com/") || !strings.Contains(link, "#mcpProxyToken=") {
		t.Errorf("the browser got %q", link)
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
	<-opening.done
}
