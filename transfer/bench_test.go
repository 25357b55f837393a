package transfer_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"colab-mcp/notebook"
	"colab-mcp/notebook/kerneltest"
	"colab-mcp/transfer"
)

// table is CSV as programs write it.
func table(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 0, n+100)
	for i := 0; len(data) < n; i++ {
		data = fmt.Appendf(data, "%d,2026-11-30T%02d:%02d:%02d,%.3f,%s,%d\n", i, i/3600%24, i/60%60, i%60, r.Float64()*100, []string{"north", "south", "east"}[r.IntN(3)], r.IntN(1000))
	}
	return data[:n]
}

// The engine and the kernel without any bridge: what is left to gain there.
func BenchmarkEngine(b *testing.B) {
	const size = 64 << 20
	for kernel, start := range map[string]func(testing.TB) *kerneltest.Kernel{
		"plain":     func(tb testing.TB) *kerneltest.Kernel { return kerneltest.Plain(tb, "") },
		"ipykernel": kerneltest.IPython,
	} {
		for kind, data := range map[string][]byte{"random": random(size), "csv": table(size)} {
			k := start(b)
			dir, err := filepath.EvalSymlinks(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			l, err := notebook.NewLocal([]string{dir})
			if err != nil {
				b.Fatal(err)
			}
			f := &transfer.Files{Local: l}
			o := transfer.Options{LocalPath: filepath.Join(dir, "local"), RemotePath: filepath.Join(dir, "remote")}
			for verb, run := range map[string]func() (transfer.Result, error){
				"upload":   func() (transfer.Result, error) { return f.Upload(b.Context(), &channel{k: k}, o) },
				"download": func() (transfer.Result, error) { return f.Download(b.Context(), &channel{k: k}, o) },
			} {
				from, to := o.LocalPath, o.RemotePath
				if verb == "download" {
					from, to = to, from
				}
				if err := os.WriteFile(from, data, 0o600); err != nil {
					b.Fatal(err)
				}
				b.Run(kernel+"/"+kind+"/"+verb, func(b *testing.B) {
					b.SetBytes(size)
					for b.Loop() {
						os.Remove(to)
						if _, err := run(); err != nil {
							b.Fatal(err)
						}
					}
				})
				os.Remove(to)
			}
		}
	}
}
