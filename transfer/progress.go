package transfer

import (
	"fmt"
	"time"
)

// Progress is how far a transfer is. Bytes counts those confirmed, resumed ones included.
type Progress struct {
	Bytes, Total int64
	Rate         float64       // bytes per second since this call began
	ETA          time.Duration // 0 = not known
}

// meter reports progress.
type meter struct {
	report func(Progress)    // may be nil
	kept   func(bytes int64) // what is done before that; may be nil
	now    func() time.Time
	total  int64

	began   time.Time
	resumed int64
}

func newMeter(report func(Progress), now func() time.Time, total int64) *meter {
	return &meter{report: report, now: now, total: total, began: now()}
}

// reached reports that bytes are confirmed.
func (m *meter) reached(bytes int64) {
	if m.kept != nil {
		m.kept(bytes)
	}
	if m.report == nil {
		return
	}
	p := Progress{Bytes: bytes, Total: m.total}
	if seconds := m.now().Sub(m.began).Seconds(); seconds > 0 && bytes > m.resumed {
		p.Rate = float64(bytes-m.resumed) / seconds
		p.ETA = time.Duration(float64(m.total-bytes) / p.Rate * float64(time.Second))
	}
	m.report(p)
}

// title is what the human reads above the cell. Total 0 is not known, or nothing to wait for.
func title(verb, name string, bytes, total int64) string {
	return fmt.Sprintf("colab-mcp · %s %s · %d %%", verb, name, bytes*100/max(total, 1))
}
