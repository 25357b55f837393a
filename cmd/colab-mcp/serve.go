package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"colab-mcp/bridge"
	"colab-mcp/bridge/stdio"
	"colab-mcp/jobs"
	"colab-mcp/notebook"
	"colab-mcp/state"
	"colab-mcp/transfer"
)

//go:embed instructions.md
var instructions string

type serveCmd struct{}

// lastWord is how long the end of the process may take: an agent that closed
// its pipe waits for nobody.
const lastWord = 1800 * time.Millisecond

func (serveCmd) Run(s *settings) error {
	out := stdio.Take()
	debug.SetMemoryLimit(3 << 30) // answers of 64 MiB: collect before the machine swaps
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	srv := newServer(s)
	return srv.serve(ctx, os.Stdin, out)
}

// server is one process's parts, wired. They are closed in the reverse order
// of the picture: jobs begin nothing more, the tab gets its close frame, the
// jobs see their runs end.
type server struct {
	settings *settings
	secrets  *state.Redactor
	log      *slog.Logger
	flush    func()
	logFile  io.Closer
	dir      *state.Dir
	bridge   *bridge.Bridge
	launcher *bridge.Launcher
	jobs     *jobs.Manager
	mcp      *mcp.Server
	toolbox  *bridge.Toolbox
	pipe     *stdio.Transport
}

// newServer opens the state and wires everything. What cannot be had on disk
// is reported and done without: the agent's side works on every path.
func newServer(s *settings) *server {
	srv := &server{settings: s, secrets: &state.Redactor{}}
	var remarks []string
	srv.dir, remarks = openState(s)
	srv.openLog()
	for _, r := range remarks {
		srv.log.Warn(r)
	}

	keep := &keeper{dir: srv.dir, write: !s.Ephemeral && srv.dir.Primary() && srv.dir.Path() != "", log: srv.log}
	id, previous, remark := keep.load(s, time.Now())
	if remark != "" {
		remarks = append(remarks, remark)
		srv.log.Warn(remark)
	}
	srv.secrets.Add(id.Token)

	srv.launcher, _ = bridge.NewLauncher(s.Browser) // checked with the flags
	temps := srv.blobs("temps", state.Limits{})
	var nb *notebook.Notebook
	srv.bridge = bridge.New(bridge.Options{
		Identity: id, Pinned: s.Port != 0, Previous: previous, Version: version, Remark: func() string { return others(srv.dir) },
		UITimeout: time.Duration(s.UITimeout), NoReopen: !s.AutoReopen, Log: srv.log,
		Browse: srv.launcher.Open,
		Busy:   func() (string, time.Time, bool) { return srv.jobs.Busy() },
		OnIdentity: func(id bridge.Identity, link bridge.Link) {
			srv.secrets.Add(id.Token)
			keep.save(id, link)
		},
		OnTools: func(tools []bridge.Tool) { srv.toolbox.Follow(tools) },
		OnLog:   srv.relayLog,
		OnReady: func(t *bridge.Tab) {
			srv.jobs.Found(context.Background(), t, srv.bridge.Status().Notebook)
			if err := nb.Sweep(context.Background(), t); err != nil {
				srv.log.Warn("temporary cells not swept", "err", err)
			}
			nb.Look(context.Background(), t) // what it shows now is what is meant
		},
	})
	nb = notebook.New(loadTemps(temps), srv.log)
	nb.Where = func() string { return srv.bridge.Status().Notebook }
	nb.Keep = func(list []notebook.Temp) { saveTemps(temps, list, srv.log) }
	srv.jobs = jobs.New(jobs.Options{
		Bridge: srv.bridge, Notebook: nb, SoftLimit: time.Duration(s.SoftLimit), Words: words, Log: srv.log,
		Records: srv.blobs("jobs", jobs.RecordLimits), Outputs: srv.blobs("outputs", jobs.OutputLimits),
	})

	srv.mcp = mcp.NewServer(&mcp.Implementation{Name: "colab-mcp", Title: "Google Colab", Version: version}, &mcp.ServerOptions{
		Instructions: instructions,
		//lint:ignore SA1019 deprecated for the newest version only; clients of the others ask for logs
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}, Logging: &mcp.LoggingCapabilities{}},
		Logger:       srv.log,
	})
	srv.pipe = &stdio.Transport{Log: srv.log, Linger: time.Second}
	srv.toolbox = &bridge.Toolbox{Server: srv.mcp, Bridge: srv.bridge, Splice: srv.pipe.Splice, MaxOutput: s.MaxOutput, Facts: srv.facts(remarks)}
	bridge.AddTools(srv.toolbox)
	notebook.AddTools(srv.toolbox, nb, s.local)
	jobs.AddTools(srv.toolbox, srv.jobs)
	transfer.AddTools(srv.toolbox, srv.jobs, nb, &transfer.Files{Local: s.local, Max: int64(s.MaxTransfer), Begun: srv.blobs("transfers", transfer.BegunLimits)})

	srv.bridge.Start() // what goes wrong is told by every tool that needs a port
	keep.save(srv.bridge.Identity())
	return srv
}

func (srv *server) openLog() {
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(srv.settings.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	if srv.settings.Ephemeral {
		srv.log, srv.flush = slog.New(slog.DiscardHandler), func() {}
		return
	}
	file, err := state.OpenLog(srv.settings.Log)
	srv.logFile = file
	srv.log, srv.flush = state.NewLogger(file, level, srv.secrets)
	if err != nil {
		fmt.Fprintf(os.Stderr, "colab-mcp: no log: %v\n", err)
	}
	srv.log.Info("started", "version", version, "commit", commit(), "pid", os.Getpid())
}

// blobs opens a store of the state directory, nil if it cannot be had.
func (srv *server) blobs(name string, limits state.Limits) *state.Blobs {
	b, err := srv.dir.Blobs(name, limits)
	if err != nil {
		srv.log.Warn("not kept on disk", "what", name, "err", err)
		return nil
	}
	return b
}

func (srv *server) facts(remarks []string) bridge.Facts {
	f := bridge.Facts{Version: version, PID: os.Getpid(), StateDir: srv.dir.Path(), LogDir: srv.settings.Log, Instance: "primary", Running: srv.jobs.Busy}
	if !srv.dir.Primary() {
		f.Instance = "secondary"
	}
	if srv.settings.Ephemeral {
		f.LogDir = ""
	}
	for _, r := range remarks {
		f.Note += r + ". "
	}
	return f
}

// serve speaks MCP until the agent closes its pipe or ctx ends.
func (srv *server) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	srv.pipe.In, srv.pipe.Out = in, out
	srv.mcp.AddReceivingMiddleware(survive(srv.log), until(ctx), explain(srv.toolbox), srv.toolbox.Middleware)
	session, err := srv.mcp.Connect(context.WithoutCancel(ctx), srv.pipe, &mcp.ServerSessionOptions{State: firstState()})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	var why error
	select {
	case why = <-ended:
	case <-ctx.Done():
	}
	// Nothing out here may keep the process: a disk, a browser, a reader of
	// our stdout that is stuck.
	last := time.AfterFunc(lastWord, func() { os.Exit(0) })
	defer last.Stop()
	stop()
	srv.close()
	session.Close()
	if errors.Is(why, io.EOF) || errors.Is(why, mcp.ErrConnectionClosed) || errors.Is(why, syscall.EPIPE) {
		why = nil // the agent has gone
	}
	return why
}

func (srv *server) close() {
	srv.jobs.Stop()
	srv.bridge.Close()
	srv.jobs.Close()
	srv.launcher.Close()
	srv.log.Info("stopped")
	srv.flush()
	srv.dir.Close()
	if srv.logFile != nil {
		srv.logFile.Close()
	}
}

// until joins the process's end into every handler: the SDK cancels handlers
// when the pipe closes, not when a signal comes.
func until(root context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(root, cancel)()
			return next(ctx, method, req)
		}
	}
}
