package jobs

import (
	"encoding/json"

	"github.com/google/uuid"

	"colab-mcp/notebook"
)

// smallText is how many bytes of a cell's text stay in memory; what is larger
// is read back from disk when somebody asks.
const smallText = 2 << 10

// keep puts a cell's whole output aside, so that whatever a result cuts of it
// can be fetched. The view then holds no text of its own.
func (m *Manager) keep(it *item, outs []notebook.Output, shown notebook.Rendered) {
	v := &it.view
	if m.opts.Outputs == nil || textSize(*v) <= smallText {
		return
	}
	ref, err := m.store(notebook.Keep(outs, shown))
	if err != nil {
		m.opts.Log.Warn("output not kept", "err", err)
		return
	}
	it.ref = ref
	v.Stdout, v.Stderr, v.Result = "", "", ""
	if v.Error != nil {
		e := *v.Error
		e.Traceback = ""
		if len(e.Value) > smallText {
			e.Value = ""
		}
		v.Error = &e
	}
}

// store keeps a document under a new reference, and beside it the ends of its
// texts: a status of many large cells reads only those.
func (m *Manager) store(k notebook.Kept) (ref string, err error) {
	raw, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	ends, err := json.Marshal(k.Ends())
	if err != nil {
		return "", err
	}
	ref = "out-" + uuid.NewString()[:8]
	if err := m.opts.Outputs.Put(ref, raw); err != nil {
		return "", err
	}
	return ref, m.opts.Outputs.Put(ref+endsSuffix, ends)
}

const endsSuffix = ".ends"

// fetch reads what was kept; the error is a *[NotFoundError].
func (m *Manager) fetch(ref string) (notebook.Kept, error) {
	var k notebook.Kept
	if m.opts.Outputs == nil {
		return k, &NotFoundError{"output", ref}
	}
	raw, err := m.opts.Outputs.Get(ref)
	if err != nil || json.Unmarshal(raw, &k) != nil {
		return k, &NotFoundError{"output", ref}
	}
	return k, nil
}

// filled is the view with its texts, as much of them as a result may show.
func (m *Manager) filled(v notebook.View, ref string) notebook.View {
	if ref == "" {
		return v
	}
	var ends map[string]notebook.Ends
	var raw []byte
	err := error(&NotFoundError{"output", ref})
	if m.opts.Outputs != nil {
		raw, err = m.opts.Outputs.Get(ref + endsSuffix)
	}
	if err != nil || json.Unmarshal(raw, &ends) != nil {
		v.AddNote("its output is no longer kept")
		return v
	}
	v.Fill(ends)
	return v
}

func textSize(v notebook.View) int {
	n := len(v.Stdout) + len(v.Stderr) + len(v.Result)
	if v.Error != nil {
		n += len(v.Error.Value) + len(v.Error.Traceback)
	}
	return n
}
