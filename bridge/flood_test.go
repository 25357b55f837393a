package bridge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/bridge/localtab/tabtest"
)

// burden is what the process carries after a flood, against before.
type burden struct {
	goroutines int
	heap       uint64
}

func carried() burden {
	synctest.Wait()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return burden{runtime.NumGoroutine(), m.HeapAlloc}
}

func (d *desk) raw() net.Conn {
	d.t.Helper()
	id, _ := d.Identity()
	c, err := d.net.Dial(d.t.Context(), "tcp", fmt.Sprintf("localhost:%d", id.Port))
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// flooded sends a flood of 10,000 and checks that it is bounded while it lasts, that a tab still gets in, and that the log keeps
// quiet.
func flooded(t *testing.T, one func(t *testing.T, d *desk)) {
	t.Helper()
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		before := carried()
		for range 10000 {
			one(t, d)
		}
		after := carried()
		if n := after.goroutines - before.goroutines; n > 2000 {
			t.Errorf("%d goroutines more", n)
		}
		if after.heap > before.heap+64<<20 {
			t.Errorf("%d MiB more", (after.heap-before.heap)>>20)
		}
		if lines := strings.Count(d.logged(), "\n"); lines > 100 {
			t.Errorf("%d log lines", lines)
		}
		_, tab := d.connect(tabtest.Knobs{})
		works(t, tab)
		time.Sleep(time.Minute)
		if n := carried().goroutines - before.goroutines; n > 300 {
			t.Errorf("%d goroutines more a minute later", n)
		}
	})
}

// held keeps the far ends of a flood open until the test ends.
func held(t *testing.T, c net.Conn) net.Conn {
	t.Cleanup(func() { c.Close() })
	return c
}

// Issue 5, point 5; L10
func TestConnectsWithoutAByteAreBounded(t *testing.T) {
	flooded(t, func(t *testing.T, d *desk) { held(t, d.raw()) })
}

// Issue 5, point 5
func TestBadTokensAreBounded(t *testing.T) {
	flooded(t, func(t *testing.T, d *desk) {
		c := held(t, d.raw())
		id, _ := d.Identity()
		fmt.Fprintf(c, "GET /?access_token=wrong HTTP/1.1\r\nHost: localhost:%d\r\nOrigin: https://colab.research.google.com\r\n"+
			"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n", id.Port)
		buf := make([]byte, 12)
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "HTTP/1.1 403" {
			t.Fatalf("%q, %v", buf, err)
		}
		d.users.Go(func() { io.Copy(io.Discard, c) }) // the far end keeps the connection open
	})
}

// Issue 5, point 5: a head that never ends.
func TestSlowUpgradesAreBounded(t *testing.T) {
	flooded(t, func(t *testing.T, d *desk) {
		c := held(t, d.raw())
		c.SetWriteDeadline(time.Now().Add(time.Second))
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n")
	})
}

// Issue 5, point 5: a head that drips is cut off.
func TestDrippingUpgradeIsCutOff(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		c := held(t, d.raw())
		begun := time.Now()
		io.WriteString(c, "GET / HTTP/1.1\r\n")
		for {
			time.Sleep(time.Second)
			if _, err := io.WriteString(c, "X: y\r\n"); err != nil {
				break
			}
			if time.Since(begun) > time.Minute {
				t.Fatal("still listened to after a minute")
			}
		}
	})
}

// Issue 5, point 5: a body that drips is cut off too.
func TestDrippingBodyIsCutOff(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		before := carried()
		for range 100 {
			c := held(t, d.raw())
			id, _ := d.Identity()
			d.users.Go(func() { io.Copy(io.Discard, c) })
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: 1000\r\n\r\n", id.Port)
		}
		time.Sleep(time.Minute)
		if n := carried().goroutines - before.goroutines; n > 0 {
			t.Errorf("%d goroutines more a minute later", n)
		}
	})
}

// Tab-protocol, section 5: a tab that asks and reads no answers.
func TestRequestsOfADeafTabAreBounded(t *testing.T) {
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, _ := d.connect(tabtest.Knobs{})
		before := carried()
		f.StopReading()
		for range 10000 {
			f.Request("ping", "{}")
		}
		if n := carried().goroutines - before.goroutines; n > 300 {
			t.Errorf("%d goroutines more", n)
		}
	})
	inBubble(t, bridge.Options{}, func(t *testing.T, d *desk) {
		f, _ := d.connect(tabtest.Knobs{})
		var last string
		for range 1000 {
			last = f.Request("ping", "{}")
			synctest.Wait()
		}
		if f.Replies()[last] == nil || len(f.Replies()) != 1000 {
			t.Errorf("%d of 1000 pings were answered to a tab that reads", len(f.Replies()))
		}
	})
}

// C16: an agent that reads nothing while the tab logs.
func TestLogsThatNobodyTakesAreBounded(t *testing.T) {
	taken, goOn := 0, make(chan struct{})
	o := bridge.Options{OnLog: func(json.RawMessage) {
		<-goOn
		taken++
	}}
	inBubble(t, o, func(t *testing.T, d *desk) {
		goOn = make(chan struct{}) // of this bubble
		f, tab := d.connect(tabtest.Knobs{})
		for range 10000 {
			f.Inject(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		works(t, tab) // the reader goes on
		close(goOn)
		synctest.Wait()
		if taken < 100 || taken > 2000 {
			t.Errorf("%d of 10000 logs were kept for later", taken)
		}
	})
}

// L10, issue 5: real sockets, since the kernel has a word in it too.
func TestFloodOfRealSocketsLetsTheTabIn(t *testing.T) {
	d := newDesk(t, bridge.Options{Listen: bridge.Listen})
	d.net = nil
	id, _ := d.Identity()
	addr := fmt.Sprintf("127.0.0.1:%d", id.Port)
	for range 400 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		held(t, c)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 100 {
		resp, err := client.Get("http://" + addr + "/?access_token=wrong")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	d.accepts(0, tabtest.Knobs{}) // no sooner than the opener asks: a tab that it finds in its handshake may be of another notebook
	if o := d.open(bridge.Ask{}); !o.Ready {
		t.Fatalf("opened %+v", o)
	}
	if _, err := d.Live().Call(t.Context(), "get_cells", nil, nil); err != nil {
		t.Error(err)
	}
}
