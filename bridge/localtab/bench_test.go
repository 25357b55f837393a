package localtab

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkRun is a run over the wire, against plain Python and a real ipykernel: an empty one, one that
// brings 4 MiB in as source, and one that prints 4 MiB.
func BenchmarkRun(b *testing.B) {
	const n = 4 << 20
	for _, plain := range []bool{true, false} {
		for _, c := range []struct {
			name, code string
			bytes      int64
		}{
			{"empty", "", 0},
			{"source4MiB", "x = len('" + strings.Repeat("QUJD", n/4) + "')", n},
			{"stdout4MiB", fmt.Sprintf("print('QUJD' * %d)", n/4), n},
		} {
			b.Run(fmt.Sprintf("%s/%s", map[bool]string{true: "plain", false: "ipykernel"}[plain], c.name), func(b *testing.B) {
				p := connect(b, newPythonTab(b, plain))
				id := p.addCode(c.code)
				var empty struct{}
				p.payload("run_code_cell", obj{"cellId": id}, &empty)
				update := fmt.Sprintf(`{"name":"update_cell","arguments":{"cellId":%q,"content":%q}}`, id, c.code)
				b.SetBytes(c.bytes)
				for b.Loop() {
					if strings.HasPrefix(c.name, "source") {
						_, ch := p.start("tools/call", update)
						<-ch
					}
					_, ch := p.startTool("run_code_cell", obj{"cellId": id})
					<-ch
				}
			})
		}
	}
}
