package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// knock dials with one thing changed and returns the HTTP status, 101 for a tab that was let in.
func (d *desk) knock(change func(r *tabtest.Raw, token string)) (int, string) {
	d.t.Helper()
	raw := tabtest.RawOf(d.net, d.link())
	change(&raw, d.token())
	conn, resp, err := raw.Dial(d.t.Context())
	if resp == nil {
		d.t.Fatalf("no HTTP answer: %v", err)
	}
	if conn != nil {
		conn.CloseNow()
		synctest.Wait()
		return resp.StatusCode, ""
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

type knock struct {
	name   string
	change func(r *tabtest.Raw, token string)
	status int
}

func runKnocks(t *testing.T, knocks []knock) {
	for _, k := range knocks {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
				status, body := d.knock(k.change)
				if status != k.status {
					t.Errorf("status %d, want %d: %s", status, k.status, body)
				}
				if strings.Contains(body, d.token()) {
					t.Errorf("the answer holds the token: %s", body)
				}
				if s := d.Status(); s.State != "disconnected" {
					t.Errorf("state %s after the knock", s.State)
				}
				d.connect(tabtest.Knobs{}) // the door still works
			})
		})
	}
}

// S1
func TestOnlyColabsOriginIsLetIn(t *testing.T) {
	origins := func(values ...string) func(*tabtest.Raw, string) {
		return func(r *tabtest.Raw, _ string) { r.Header["Origin"] = values }
	}
	const colab = "https://colab.research.google.com"
	runKnocks(t, []knock{
		{"colab.research", origins(colab), 101},
		{"colab.google", origins("https://colab.google.com"), 101},
		{"none", origins(), 403},
		{"empty", origins(""), 403},
		{"null", origins("null"), 403},
		{"http", origins("http://colab.research.google.com"), 403},
		{"port", origins(colab + ":8443"), 403},
		{"default port", origins(colab + ":443"), 403},
		{"slash", origins(colab + "/"), 403},
		{"suffix", origins(colab + ".evil.tld"), 403},
		{"prefix", origins("https://evil-colab.research.google.com"), 403},
		{"subdomain", origins("https://x.colab.research.google.com"), 403},
		{"case", origins("https://COLAB.research.google.com"), 403},
		{"list", origins(colab + ", https://colab.google.com"), 403},
		{"twice", origins(colab, colab), 403},
		{"one of two", origins(colab, "https://evil.tld"), 403},
		{"same as host", func(r *tabtest.Raw, _ string) { r.Header["Origin"] = []string{"http://" + r.Host} }, 403},
		{"localhost", origins("http://localhost"), 403},
	})
}

// S1
func TestSubprotocolIsRequired(t *testing.T) {
	protocols := func(p ...string) func(*tabtest.Raw, string) {
		return func(r *tabtest.Raw, _ string) { r.Subprotocols = p }
	}
	runKnocks(t, []knock{
		{"none", protocols(), 400},
		{"another", protocols("chat"), 400},
		{"case", protocols("MCP2"), 400},
		{"among others", protocols("chat", "mcp"), 101},
	})
}

// S2
func TestOnlyTheExactTokenIsLetIn(t *testing.T) {
	path := func(format string) func(*tabtest.Raw, string) {
		return func(r *tabtest.Raw, token string) { r.Path = strings.ReplaceAll(format, "TOKEN", token) }
	}
	header := func(values ...string) func(*tabtest.Raw, string) {
		return func(r *tabtest.Raw, token string) {
			r.Path = "/"
			for _, v := range values {
				r.Header.Add("Authorization", strings.ReplaceAll(v, "TOKEN", token))
			}
		}
	}
	runKnocks(t, []knock{
		{"query", path("/?access_token=TOKEN"), 101},
		{"beside another key", path("/?a=b&access_token=TOKEN"), 101},
		{"bearer", header("Bearer TOKEN"), 101},
		{"no credentials", path("/"), 401},
		{"empty token", path("/?access_token="), 403},
		{"bare key", path("/?access_token"), 403},
		{"longer", path("/?access_token=TOKENx"), 403},
		{"shorter", func(r *tabtest.Raw, token string) { r.Path = "/?access_token=" + token[:len(token)-1] }, 403},
		{"lower case", func(r *tabtest.Raw, token string) { r.Path = "/?access_token=" + strings.ToLower(token) }, 403},
		{"space", path("/?access_token=TOKEN%20"), 403},
		{"nul", path("/?access_token=TOKEN%00"), 403},
		{"inside another key", path("/?x=access_token=TOKEN"), 401},
		{"key of another case", path("/?Access_Token=TOKEN"), 401},
		{"in the path", path("/TOKEN"), 401},
		{"twice", path("/?access_token=TOKEN&access_token=TOKEN"), 403},
		{"right then wrong", path("/?access_token=TOKEN&access_token=x"), 403},
		{"wrong then right", path("/?access_token=x&access_token=TOKEN"), 403},
		{"wrong bearer", header("Bearer TOKENx"), 403},
		{"basic", header("Basic TOKEN"), 400},
		{"bearer without token", header("Bearer"), 400},
		{"bearer with an empty token", header("Bearer "), 400},
		{"bearer of two words", header("Bearer TOKEN TOKEN"), 403},
		{"two headers", header("Bearer TOKEN", "Bearer TOKEN"), 403},
		{"right query, wrong bearer", func(r *tabtest.Raw, token string) { r.Header.Set("Authorization", "Bearer x") }, 403},
		{"wrong query, right bearer", func(r *tabtest.Raw, token string) {
			r.Path = "/?access_token=x"
			r.Header.Set("Authorization", "Bearer "+token)
		}, 403},
	})
}

// S2
func TestRetiredTokenIsRefused(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		old := d.link()
		f, tab := d.connect(tabtest.Knobs{})
		d.Rotate()
		synctest.Wait()
		if code, why := f.CloseCode(); code != bridge.StatusMoved || why == "" {
			t.Errorf("the tab was closed with %d %q, want %d and a reason", code, why, bridge.StatusMoved)
		}
		if tab.Why() == nil || d.Live() != nil {
			t.Error("the tab of the old token still counts")
		}
		if _, resp, _ := tabtest.RawOf(d.net, old).Dial(t.Context()); resp == nil || resp.StatusCode != 403 {
			t.Errorf("the old token was answered %v, want 403", resp)
		}
		d.connect(tabtest.Knobs{}) // same port, new token
		if new := d.link(); new == old {
			t.Error("the token did not change")
		}
	})
}

// S3
func TestOnlyLoopbackHostsWithOurPortAreServed(t *testing.T) {
	host := func(format string) func(*tabtest.Raw, string) {
		return func(r *tabtest.Raw, _ string) {
			_, port, _ := strings.Cut(r.Host, ":")
			r.HostHeader = strings.ReplaceAll(format, "PORT", port)
		}
	}
	runKnocks(t, []knock{
		{"localhost", host("localhost:PORT"), 101},
		{"four", host("127.0.0.1:PORT"), 101},
		{"six", host("[::1]:PORT"), 101},
		{"evil", host("evil.tld:PORT"), 403},
		{"rebound", host("localhost.evil.tld:PORT"), 403},
		{"rebound address", host("127.0.0.1.nip.io:PORT"), 403},
		{"no port", host("localhost"), 403},
		{"another port", host("localhost:1"), 403},
		{"longer port", host("localhost:PORT0"), 403},
		{"any address", host("0.0.0.0:PORT"), 403},
		{"lan", host("192.168.0.2:PORT"), 403},
	})
}

// S1: everything is checked before the upgrade, and what fails first does not tell what else was right.
func TestWrongOriginWithRightTokenIsNoBetter(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		right, rightBody := d.knock(func(r *tabtest.Raw, _ string) { r.Header.Set("Origin", "https://evil.tld") })
		wrong, wrongBody := d.knock(func(r *tabtest.Raw, token string) {
			r.Header.Set("Origin", "https://evil.tld")
			r.Path = "/?access_token=x"
		})
		if right != 403 || wrong != 403 || rightBody != wrongBody {
			t.Errorf("a page of another origin learns the token: %d %q, %d %q", right, rightBody, wrong, wrongBody)
		}
	})
}

// exchange sends raw bytes on a connection of its own and returns the answer's head.
func (d *desk) exchange(request string) *http.Response {
	d.t.Helper()
	id, _ := d.Identity()
	c, err := d.net.Dial(d.t.Context(), "tcp", fmt.Sprintf("localhost:%d", id.Port))
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close()
	go io.WriteString(c, strings.ReplaceAll(request, "PORT", fmt.Sprint(id.Port)))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		d.t.Fatalf("%.60q was answered by no HTTP: %v", request, err)
	}
	return resp
}

// tab-protocol, section 5: plain HTTP on the port.
func TestPlainHTTPIsAnsweredAndHarmless(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		for _, request := range []string{
			"GET / HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n",
			"GET /favicon.ico HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: localhost:PORT\r\nContent-Length: 2\r\n\r\n{}",
			"GET / HTTP/1.0\r\n\r\n",
			"hello\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: localhost:PORT\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		} {
			if resp := d.exchange(request); resp.StatusCode < 400 || resp.StatusCode > 499 {
				t.Errorf("%.60q was answered %s", request, resp.Status)
			}
		}
		// The token alone is no upgrade.
		resp := d.exchange("GET /?access_token=" + d.token() + " HTTP/1.1\r\nHost: localhost:PORT\r\nOrigin: https://colab.research.google.com\r\n\r\n")
		if resp.StatusCode < 400 || d.Status().State != "disconnected" {
			t.Errorf("a request without upgrade was answered %s, state %s", resp.Status, d.Status().State)
		}
		d.connect(tabtest.Knobs{})
		time.Sleep(time.Second) // net/http lingers half a second over a request it cut off
	})
}

// tab-protocol, section 1: the preflight of Chrome's private network access.
func TestPreflightIsAnsweredToColabOnly(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		ask := func(origin, host string) *http.Response {
			return d.exchange("OPTIONS / HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + origin +
				"\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Private-Network: true\r\n\r\n")
		}
		resp := ask("https://colab.research.google.com", "localhost:PORT")
		if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Private-Network") != "true" {
			t.Errorf("Colab's preflight: %s %v", resp.Status, resp.Header)
		}
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "https://colab.research.google.com" {
			t.Errorf("allowed origin %q", got)
		}
		for _, resp := range []*http.Response{ask("https://evil.tld", "localhost:PORT"), ask("https://colab.research.google.com", "evil.tld:PORT")} {
			if resp.Header.Get("Access-Control-Allow-Private-Network") != "" || resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("a stranger's preflight: %s %v", resp.Status, resp.Header)
			}
		}
	})
}
