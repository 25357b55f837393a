package notebook

import (
	"encoding/json"
	"strings"
)

// moved is the prefix of what stands in metadata because it is not legal where
// the tab had it.
const moved = "colab-mcp/"

// cellMetadata is the cell's metadata as far as the schema allows, Colab's own
// keys (cellView, colab, id, …) among them; the rest is moved.
func cellMetadata(c Cell) object {
	meta, ok := decodeObject(c.Metadata)
	if !ok {
		meta = object{}
		if c.Metadata != nil && string(c.Metadata) != "null" {
			meta[moved+"metadata"] = c.Metadata
		}
	}
	for key, legal := range reserved {
		if raw, ok := meta[key]; ok && !legal(c.Type, raw) {
			delete(meta, key)
			meta[moved+key] = raw
		}
	}
	if c.Type != Code && c.Type != Markdown && c.Type != Raw {
		meta[moved+"cell_type"], _ = json.Marshal(c.Type)
	}
	if c.Attachments != nil && (c.Type == Code || legalAttachments(c.Attachments) == nil) {
		meta[moved+"attachments"] = c.Attachments
	}
	for key, raw := range meta {
		meta[key] = legalJSON(raw)
	}
	return meta
}

// reserved are the metadata keys that nbformat 4.5 gives a type, by cell type.
var reserved = map[string]func(cellType string, raw json.RawMessage) bool{
	"jupyter":   func(_ string, raw json.RawMessage) bool { _, ok := decodeObject(raw); return ok },
	"name":      func(_ string, raw json.RawMessage) bool { return isLine(raw) },
	"tags":      func(_ string, raw json.RawMessage) bool { return isTags(raw) },
	"format":    func(t string, raw json.RawMessage) bool { return t == Code || t == Markdown || isString(raw) },
	"collapsed": func(t string, raw json.RawMessage) bool { return t != Code || isOneOf(raw, "true", "false") },
	"scrolled":  func(t string, raw json.RawMessage) bool { return t != Code || isOneOf(raw, "true", "false", `"auto"`) },
	"execution": func(t string, raw json.RawMessage) bool {
		times, ok := decodeObject(raw)
		for _, v := range times {
			ok = ok && isString(v)
		}
		return ok || t != Code
	},
}

func isOneOf(raw json.RawMessage, words ...string) bool {
	s := compact(raw)
	for _, w := range words {
		if s == w {
			return true
		}
	}
	return false
}

func isString(raw json.RawMessage) bool {
	var s *string
	return json.Unmarshal(raw, &s) == nil && s != nil
}

// isLine reports a string that begins with something: the schema's "^.+$".
func isLine(raw json.RawMessage) bool {
	return isString(raw) && text(raw) != "" && !strings.ContainsAny(text(raw), "\n")
}

// isTags reports a list of unique strings without commas.
func isTags(raw json.RawMessage) bool {
	tags, ok := textList(raw)
	seen := map[string]bool{}
	for _, t := range tags {
		ok = ok && t != "" && !strings.Contains(t, ",") && !seen[t]
		seen[t] = true
	}
	return ok
}

// legalAttachments is raw if it is files of mime bundles, else nil.
func legalAttachments(raw json.RawMessage) json.RawMessage {
	files, ok := decodeObject(raw)
	if !ok {
		return nil
	}
	for _, f := range files {
		bundle, ok := decodeObject(f)
		if !ok {
			return nil
		}
		for mime, v := range bundle {
			if _, isList := textList(v); !jsonMIME.MatchString(mime) && !isString(v) && !isList {
				return nil
			}
		}
	}
	return legalJSON(raw)
}
