package jobs_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"regexp"
	"sync"
	"time"

	"colab-mcp/bridge/localtab/tabtest"
	"colab-mcp/notebook"
)

var moduleCall = regexp.MustCompile(`\('([A-Z2-7]+)', '(arm|fired)', '([A-Za-z0-9+/=]*)'`)

// deadlines gives a scripted kernel what the kernel module does in Python: the
// cell that runs after an arm is interrupted when its time is up.
type deadlines struct {
	mu    sync.Mutex
	armed *time.Timer
	fired bool
	late  bool // the cell begins too late to be timed
	calls []string
}

func withDeadlines(k *tabtest.Kernel) *deadlines {
	d := &deadlines{}
	k.On("_colab_mcp_kernel_", func(_ context.Context, code string, s tabtest.Screen) {
		m := moduleCall.FindStringSubmatch(code)
		if m == nil {
			s.Error("SyntaxError", "not a call of the module")
			return
		}
		reply := fmt.Sprintf(`{"ok":%s}`, d.call(k, m[2], m[3]))
		s.Write(fmt.Sprintf("colab-mcp:%s:%08x%s\n", m[1], crc32.ChecksumIEEE([]byte(reply)), reply))
	})
	return d
}

func (d *deadlines) call(k *tabtest.Kernel, fn, args string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, fn)
	if d.armed != nil {
		d.armed.Stop()
		d.armed = nil
	}
	if fn == "fired" {
		return fmt.Sprintf(`{"known":true,"started":%t,"fired":%t}`, !d.late, d.fired)
	}
	raw, _ := base64.StdEncoding.DecodeString(args)
	var deadline notebook.Deadline
	if json.Unmarshal(raw, &deadline) != nil || deadline.Token == "" || deadline.Source == "" {
		return `{"armed":false,"why":"bad arguments"}`
	}
	d.fired = false
	if d.late {
		return `{"armed":true}`
	}
	d.armed = time.AfterFunc(time.Duration(deadline.DeadlineS*float64(time.Second)), func() {
		d.mu.Lock()
		d.fired, d.armed = true, nil
		d.mu.Unlock()
		k.Interrupt()
	})
	return `{"armed":true}`
}

// left reports whether a deadline is still armed.
func (d *deadlines) left() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.armed != nil
}
