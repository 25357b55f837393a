package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = "dev"

type verCmd struct{}

func (verCmd) Run() error {
	fmt.Println(versionText())
	return nil
}

func versionText() string {
	return fmt.Sprintf("colab-mcp %s (commit %s, %s %s/%s)", version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is the revision the program was built from, as Go or the build notes
// it.
func commit() string {
	if builtFrom != "" {
		return builtFrom
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "unknown"
}

// builtFrom is set by a build without version control stamping:
// -ldflags "-X main.builtFrom=abc".
var builtFrom string
