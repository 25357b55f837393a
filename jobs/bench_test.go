package jobs_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"colab-mcp/bridge/localtab"
	"colab-mcp/bridge/localtab/tabtest"
)

// One notebook of 1,000 empty cells, as a background job and by a bare client
// that makes the same calls. The aim: less than 2 ms a cell over the bare
// client, and no memory for finished cells beyond what they said.
func BenchmarkThousandCells(b *testing.B) {
	const cells = 1000
	tab, err := localtab.New(localtab.Options{Kernel: new(tabtest.Kernel)})
	if err != nil {
		b.Fatal(err)
	}
	defer tab.Close()
	served := make(chan struct{})
	d := newDesk(b, setup{soft: 10 * time.Minute, serve: func(_ *desk, link string) {
		conn, err := tab.Dial(context.Background(), link)
		if err != nil {
			b.Errorf("dial: %v", err)
			close(served)
			return
		}
		go func() {
			defer close(served)
			tab.Serve(context.Background(), conn)
		}()
	}})
	defer func() { <-served }()
	defer d.close()
	d.open()
	ids := d.fill(make([]string, cells)...)
	for i, id := range ids {
		if i%2 == 0 {
			d.tool("update_cell", with{"cellId": id, "content": "print x"}) // one that says something
		}
	}

	var job, bare time.Duration
	var grown float64
	for b.Loop() {
		before := heap()
		began := time.Now()
		id := d.background("run_notebook", with{})
		j, err := d.jobs.Job(id)
		if err != nil {
			b.Fatal(err)
		}
		<-j.Done()
		job += time.Since(began)
		grown += float64(heap() - before)

		began = time.Now()
		live := d.bridge.Live()
		for i, id := range ids {
			look, _ := json.Marshal(with{"cellIndexStart": i, "cellIndexEnd": i, "includeOutputs": true})
			run, _ := json.Marshal(with{"cellId": id})
			if _, err := live.Call(b.Context(), "get_cells", look, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := live.Run("run_code_cell", run, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := live.Call(b.Context(), "get_cells", look, nil); err != nil {
				b.Fatal(err)
			}
		}
		bare += time.Since(began)
	}
	n := float64(b.N * cells)
	b.ReportMetric(job.Seconds()*1000/n, "ms/cell")
	b.ReportMetric(bare.Seconds()*1000/n, "bare-ms/cell")
	b.ReportMetric((job-bare).Seconds()*1000/n, "over-ms/cell")
	b.ReportMetric(grown/n, "B-kept/cell")
	b.ReportMetric(0, "ns/op")
}

// heap is the memory in use after a collection, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
