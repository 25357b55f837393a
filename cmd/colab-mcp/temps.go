package main

import (
	"encoding/json"
	"log/slog"

	"colab-mcp/notebook"
	"colab-mcp/state"
)

// tempsKey is the one record of the store that notes temporary cells, to be
// swept by the next process.
const tempsKey = "temps"

func loadTemps(b *state.Blobs) []notebook.Temp {
	var list []notebook.Temp
	if b != nil {
		if raw, err := b.Get(tempsKey); err == nil && json.Unmarshal(raw, &list) != nil {
			return nil
		}
	}
	return list
}

func saveTemps(b *state.Blobs, list []notebook.Temp, log *slog.Logger) {
	if b == nil {
		return
	}
	raw, err := json.Marshal(list)
	if err == nil {
		err = b.Put(tempsKey, raw)
	}
	if err != nil {
		log.Warn("temporary cells not noted", "err", err)
	}
}
