package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"colab-mcp/bridge/localtab"
)

const colabHost = "colab.research.google.com"

// standIn is Colab's host on this machine: the page of testdata/colab at every
// path, and behind it one document with a real kernel for each path, which
// live on when a page goes, as they do in Colab.
type standIn struct {
	t    testing.TB
	addr string // of the listener
	spki string // its key, as Chromium is told to trust it

	ctx  context.Context
	stop context.CancelFunc
	ends sync.WaitGroup // far ends being served

	mu   sync.Mutex // guards tabs
	tabs map[string]*localtab.Tab
}

// startStandIn skips the test where there is no ipykernel.
func startStandIn(t testing.TB) *standIn {
	t.Helper()
	python := kernelPython(t)
	s := &standIn{t: t, tabs: map[string]*localtab.Tab{}}
	s.ctx, s.stop = context.WithCancel(context.Background())

	mux := http.NewServeMux()
	files := os.DirFS("testdata/colab")
	mux.Handle("/stand-in/", http.StripPrefix("/stand-in/", http.FileServerFS(files)))
	mux.HandleFunc("/stand-in/far-end", func(w http.ResponseWriter, r *http.Request) { s.farEnd(w, r, python) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "index.html") })

	server := httptest.NewUnstartedServer(mux)
	cert, spki := selfSigned(t, colabHost)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a browser that ends hangs up anywhere
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	s.addr, s.spki = server.Listener.Addr().String(), spki
	t.Cleanup(func() {
		s.stop()
		server.Close() // which does not wait for what was upgraded
		s.ends.Wait()
		for path, tab := range s.tabs {
			if err := tab.Close(); err != nil {
				t.Errorf("close %s: %v", path, err)
			}
		}
	})
	return s
}

// farEnd serves the notebook that the page names, on a socket of that page:
// the library refuses any other origin.
func (s *standIn) farEnd(w http.ResponseWriter, r *http.Request, python string) {
	s.ends.Add(1) // while the server waits for this, as it does up to the upgrade
	defer s.ends.Done()
	tab, err := s.tab(r.URL.Query().Get("notebook"), python)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return
	}
	tab.Serve(s.ctx, conn) // however the page leaves: a test looks at the other end
}

func (s *standIn) tab(path, python string) (*localtab.Tab, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tab := s.tabs[path]; tab != nil {
		return tab, nil
	}
	tab, err := localtab.New(localtab.Options{Python: python})
	if err == nil {
		s.tabs[path] = tab
	}
	return tab, err
}

// kernelPython is a Python that has a real kernel.
func kernelPython(t testing.TB) string {
	t.Helper()
	for _, python := range []string{os.Getenv("COLAB_MCP_PYTHON"), "/usr/bin/python3", "python3"} {
		if python != "" && exec.Command(python, "-c", "import ipykernel, jupyter_client").Run() == nil {
			return python
		}
	}
	requireReal(t, "no python3 has ipykernel and jupyter_client (Debian: apt-get install python3-ipykernel python3-jupyter-client)")
	return ""
}

// selfSigned makes a certificate for host and the hash of its key (RFC 7469,
// 2.4) that makes Chromium take it.
func selfSigned(t testing.TB, host string) (cert tls.Certificate, spki string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(public)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, base64.StdEncoding.EncodeToString(sum[:])
}
