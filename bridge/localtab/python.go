package localtab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// ErrNoPython is matched when there is nothing to run cells with.
var ErrNoPython = errors.New("no python3 found: install Python 3.8 or newer " +
	"(Debian: apt install python3, macOS: brew install python, Windows: winget install Python.Python.3.13), " +
	"or name one in COLAB_MCP_PYTHON")

// probe exits 0 if a real kernel can be driven, 3 if only plain Python can, 4 if it is too old.
const probe = `import sys
if sys.version_info < (3, 8): sys.exit(4)
from importlib.util import find_spec
sys.exit(0 if all(map(find_spec, ("ipykernel", "jupyter_client", "zmq"))) else 3)`

// FindPython returns the interpreter to use: the named one, the one in COLAB_MCP_PYTHON, the first that
// has ipykernel, or the first that works.
func FindPython(named string) (string, error) {
	if named == "" {
		named = os.Getenv("COLAB_MCP_PYTHON")
	}
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%w: %s cannot be run", ErrNoPython, named)
		}
		if s := probePython(path); s != 0 && s != 3 {
			return "", fmt.Errorf("%w: %s is not Python 3.8 or newer", ErrNoPython, named)
		}
		return path, nil
	}
	candidates := []string{"python3", "/usr/bin/python3"}
	if runtime.GOOS == "windows" {
		candidates = []string{"python3", "python"}
	}
	fallback := ""
	for _, name := range candidates {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		switch probePython(path) {
		case 0:
			return path, nil
		case 3:
			if fallback == "" {
				fallback = path
			}
		}
	}
	if fallback == "" {
		return "", ErrNoPython
	}
	return fallback, nil
}

// probePython returns the exit status of probe, or -1.
func probePython(path string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-c", probe)
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
