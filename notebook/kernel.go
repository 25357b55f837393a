package notebook

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed kernel.py
var kernelPy string

// Kernel is the module that knows the runtime and its deadlines. Its functions and their arguments and results:
//
//	runtime  –            Runtime
//	arm      Deadline     Armed
//	fired    Token        Fired
var Kernel = NewModule("kernel", kernelPy)

// Runtime is where cells run. Another ID than before is a kernel without the user's variables; another Machine one without the files.
type Runtime struct {
	ID       string `json:"id"`
	Machine  string `json:"machine"`
	PID      int    `json:"pid"`
	Cwd      string `json:"cwd"`
	Content  bool   `json:"content"` // has the directory /content, as Colab does
	Python   string `json:"python"`
	IPython  string `json:"ipython"` // "" = plain Python
	Platform string `json:"platform"`
	Free     int64  `json:"free"` // bytes on the disk of /content or Cwd, -1 = not known
}

// Deadline asks the kernel to interrupt the cell that runs next, DeadlineS seconds after it starts. It is armed by a cell of its own and replaces one
// armed before. Children of that cell get SIGINT with it and SIGKILL 5 seconds later; those that ran before the cell are left alone.
type Deadline struct {
	Token     string  `json:"token"`
	DeadlineS float64 `json:"deadline_s"`
	// Source, from SourceSum, ties the deadline to that cell, so that one which the user starts in between is not timed. "" = any.
	Source string `json:"source,omitempty"`
	// WithinS: a cell that starts later than this is not timed. 0 = 600.
	WithinS float64 `json:"within_s,omitempty"`
	// AgainS: the pause before code that swallows KeyboardInterrupt gets it again. 0 = 10.
	AgainS float64 `json:"again_s,omitempty"`
}

// Armed is the reply to Deadline. If not Armed, Why says what the runtime lacks and the cell will run without an end.
type Armed struct {
	Armed bool   `json:"armed"`
	Why   string `json:"why"`
}

// Token names a deadline that was armed.
type Token struct {
	Token string `json:"token"`
}

// Fired is what became of a deadline, asked after its cell has ended. Times are seconds from the cell's start, -1 = never.
type Fired struct {
	Known   bool    `json:"known"` // false: the kernel was restarted, or another deadline came since
	Started bool    `json:"started"`
	Fired   bool    `json:"fired"`
	FiredS  float64 `json:"fired_s"`
	EndedS  float64 `json:"ended_s"`
}

// SourceSum is the hash by which a Deadline knows its cell.
func SourceSum(source string) string {
	sum := sha256.Sum256([]byte(strings.TrimRight(source, " \t\r\n")))
	return hex.EncodeToString(sum[:])
}
