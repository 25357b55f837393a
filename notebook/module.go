package notebook

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode"
)

// Errors of a call into one of our modules in the kernel.
var (
	// ErrNoReply: the cell ended and its output holds no whole reply. The call may have been carried out.
	ErrNoReply = errors.New("the runtime gave no reply")
	// ErrModuleMissing: nothing was called, because this kernel does not have the module: it is fresh or was restarted.
	ErrModuleMissing = errors.New("our module is not in this kernel")
)

// PythonError is an exception that a function of ours, or the cell around it, ended with.
type PythonError struct {
	Name  string // the exception's class
	Value string
	// Code is the symbol of an OSError ("ENOSPC"), or a code our Python chose; often empty.
	Code      string
	Traceback []string
}

func (e *PythonError) Error() string {
	if e.Value == "" {
		return "python: " + e.Name
	}
	return "python: " + e.Name + ": " + e.Value
}

//go:embed module.py
var modulePy string

// Module is Python code of ours that is installed into a kernel once, as an entry of sys.modules, and then called by cells
// of one short expression statement. Neither leaves a name in the user's globals or shows a value. The zero Module is of no use.
type Module struct {
	name   string // in sys.modules; has a hash of the source, so that two versions of us do not meet
	source string
}

// NewModule makes a module of Python source, which may use what module.py defines: functions marked @export can be called.
func NewModule(name, source string) Module {
	source = modulePy + "\n\n" + source
	sum := sha256.Sum256([]byte(source))
	return Module{name: "_colab_mcp_" + name + "_" + hex.EncodeToString(sum[:6]), source: source}
}

// calls reports whether a cell's source is a call of one of our modules, as Call and InstallAndCall write it.
func calls(source string) bool {
	title, call, _ := strings.Cut(source, "\n")
	return strings.HasPrefix(title, "#@title colab-mcp · ") && strings.Contains(call[:min(len(call), 1<<10)], "'_colab_mcp_") || // installed
		strings.HasPrefix(title, "#@title colab-mcp · ") && strings.HasPrefix(call, "(__import__('builtins').exec(")
}

// Call writes the cell that calls fn with the fields of args (a struct or map; nil = none) as its keyword arguments. The title, if any, is for
// the human who watches the notebook. The marker finds the reply in the cell's outputs, see ParseReply.
func (m Module) Call(title, fn string, args any) (code, marker string, err error) {
	return m.CallData(title, fn, args, nil)
}

// missing is what a kernel without the module answers.
var missing = check(`{"missing":true}`) + `{"missing":true}`

// check is the sum that calls and replies carry: a page, a thread that prints in between, may damage them without making them illegible.
func check(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

// CallData is Call with bytes that reach fn as its argument data; nil sends none.
func (m Module) CallData(title, fn string, args any, data []byte) (code, marker string, err error) {
	return call(titleLine(title)+m.function(), fn, args, data, "")
}

// function is the module's call. Without the module the cell must not raise either: that would make the kernel drop what is queued behind it.
func (m Module) function() string {
	return "getattr(__import__('sys').modules.get('" + m.name + "'), 'call', lambda key, *_: __import__('builtins').print('colab-mcp:' + key + ':" + missing + "'))"
}

// installer runs in globals of its own, where name and code are given. If it fails, the call behind it says that the module is missing.
const installer = `import base64, sys, types, zlib
if name not in sys.modules:
    try:
        module = types.ModuleType(name)
        exec(compile(zlib.decompress(base64.b64decode(code)), "<" + name + ">", "exec"), module.__dict__)
        sys.modules[name] = module
    except Exception as err:
        print("colab-mcp could not install", name, repr(err))
`

// InstallAndCall is Call for a kernel that may not have the module yet.
func (m Module) InstallAndCall(title, fn string, args any) (code, marker string, err error) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	w.Write([]byte(m.source)) // a Buffer takes everything
	w.Close()
	return call(titleLine(title)+"(__import__('builtins').exec(__import__('base64').b64decode('"+base64.StdEncoding.EncodeToString([]byte(installer))+
		"'), {'name': '"+m.name+"', 'code': '"+base64.StdEncoding.EncodeToString(packed.Bytes())+"'}), "+m.function(), fn, args, nil, ")[1]")
}

// call puts the argument list of module.py's call between what calls and what follows: only literals without anything to escape. The
// source is made in one piece, for it may be megabytes.
func call(function, fn string, args any, data []byte, after string) (code, marker string, err error) {
	if args == nil {
		args = struct{}{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return "", "", fmt.Errorf("arguments of %s: %w", fn, err)
	}
	key := rand.Text()
	list := base64.StdEncoding.EncodeToString(raw)
	var b strings.Builder
	b.Grow(len(function) + len(fn) + len(list) + base64.StdEncoding.EncodedLen(len(data)) + len(after) + 80)
	b.WriteString(function + "('" + key + "', '" + fn + "', '" + list + "', '" + check(fn+list))
	if data != nil {
		b.WriteString("', '")
		w := base64.NewEncoder(base64.StdEncoding, &b)
		w.Write(data) // a Builder takes everything
		w.Close()
	}
	b.WriteString("')" + after)
	return b.String(), replyMarker(key), nil
}

// replyMarker is not what the cell's source spells, so that an echo of the source is no reply.
func replyMarker(key string) string { return "colab-mcp:" + key + ":" }

// titleLine makes Colab's form title of any text: one line, in which nothing is a control character or a form option.
func titleLine(title string) string {
	title = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case r == '{':
			return '('
		case r == '}':
			return ')'
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(title, "�"))), " ")
	if title == "" {
		return ""
	}
	if runes := []rune(title); len(runes) > 120 {
		title = string(runes[:119]) + "…"
	}
	return "#@title " + title + "\n"
}

// ParseReply finds the reply of a call in its cell's outputs, in whichever pieces and between whatever else it came. Its errors are ErrNoReply, ErrModuleMissing or a *PythonError.
func ParseReply(outs []Output, marker string) (json.RawMessage, error) {
	value, _, err := ParseReplyData(outs, marker)
	return value, err
}

// ParseReplyData is ParseReply for a reply with bytes behind its value.
func ParseReplyData(outs []Output, marker string) (json.RawMessage, []byte, error) {
	text := stdout(outs)
	_, text, found := strings.Cut(text, marker)
	line, _, whole := strings.Cut(text, "\n")
	if !found {
		return nil, nil, noReply(outs)
	}
	if !whole {
		return nil, nil, fmt.Errorf("%w: its line is cut after %d bytes", ErrNoReply, len(line))
	}
	head, tail, _ := strings.Cut(line, "\t")
	if len(head) < 8 || check(head[8:]) != head[:8] {
		return nil, nil, fmt.Errorf("%w: its line is damaged", ErrNoReply)
	}
	var reply struct {
		OK      json.RawMessage `json:"ok"`
		Error   *PythonError    `json:"error"`
		Missing bool            `json:"missing"`
	}
	if err := json.Unmarshal([]byte(head[8:]), &reply); err != nil {
		return nil, nil, fmt.Errorf("%w: its line is damaged (%v)", ErrNoReply, err)
	}
	switch {
	case reply.Missing:
		return nil, nil, ErrModuleMissing
	case reply.Error != nil:
		return nil, nil, reply.Error
	case reply.OK == nil:
		return nil, nil, fmt.Errorf("%w: its line has no value", ErrNoReply)
	}
	data, err := base64.StdEncoding.DecodeString(tail)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: its data is damaged (%v)", ErrNoReply, err)
	}
	return reply.OK, data, nil
}

// stdout joins the standard output, raw. A stream without a name counts as it.
func stdout(outs []Output) string {
	var texts []string
	for _, out := range outs {
		if out.Type == Stream && out.Name != "stderr" {
			texts = append(texts, out.Text)
		}
	}
	return strings.Join(texts, "") // one text is not copied
}

// noReply tells an exception around our call from silence.
func noReply(outs []Output) error {
	for _, out := range outs {
		if out.Type == ErrorOutput {
			return &PythonError{Name: out.EName, Value: out.EValue, Traceback: out.Traceback}
		}
	}
	return fmt.Errorf("%w: %d outputs, none of them ours", ErrNoReply, len(outs))
}

// Do calls fn by run, which sends one cell's code and returns its outputs, and decodes the reply into result (nil = not wanted).
// A kernel without the module gets it. Errors are run's and ParseReply's.
func (m Module) Do(ctx context.Context, run func(ctx context.Context, code string) ([]Output, error), title, fn string, args, result any) error {
	value, err := once(ctx, run, m.Call, title, fn, args)
	if errors.Is(err, ErrModuleMissing) {
		value, err = once(ctx, run, m.InstallAndCall, title, fn, args)
	}
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(value, result); err != nil {
		return fmt.Errorf("%w: %s answered something else (%v)", ErrNoReply, fn, err)
	}
	return nil
}

func once(ctx context.Context, run func(context.Context, string) ([]Output, error), write func(string, string, any) (string, string, error), title, fn string, args any) (json.RawMessage, error) {
	code, marker, err := write(title, fn, args)
	if err != nil {
		return nil, err
	}
	outs, err := run(ctx, code)
	if err != nil {
		return nil, err
	}
	return ParseReply(outs, marker)
}
