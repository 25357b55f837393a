package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"colab-mcp/bridge"
	"colab-mcp/state"
)

const (
	connectionFile    = "connection.json"
	connectionVersion = 1
)

// connection is what a restarted server must know so that an open page's link
// still works.
type connection struct {
	Token    string    `json:"token"`
	Created  time.Time `json:"token_created"`
	Port     int       `json:"port"`
	Notebook string    `json:"notebook,omitempty"`
}

// keeper reads and writes connection.json. Only the primary process of a state
// directory writes.
type keeper struct {
	dir   *state.Dir
	write bool
	log   *slog.Logger
}

// load returns the identity to serve with, and the notebook of the earlier
// process. remark is what the user should know about it, "" if nothing.
func (k *keeper) load(s *settings, now time.Time) (id bridge.Identity, previous bridge.Link, remark string) {
	fresh := bridge.NewIdentity(int(s.Port))
	if !k.write {
		return fresh, previous, ""
	}
	var c connection
	err := k.dir.Load(connectionFile, connectionVersion, &c)
	var newer *state.VersionError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fresh, previous, ""
	case errors.As(err, &newer):
		k.write = false
		return fresh, previous, fmt.Sprintf("%v; this process uses an identity of its own and keeps nothing: update colab-mcp", err)
	case err != nil:
		k.log.Warn("connection not read, starting with a new identity", "err", err)
		return fresh, previous, ""
	}
	if s.Port == 0 && !bridge.UnsafePort(c.Port) {
		fresh.Port = c.Port
	}
	if link, err := bridge.ParseLink(c.Notebook); c.Notebook != "" && err == nil {
		previous = link
	}
	reason := ""
	switch {
	case s.RotateToken:
		reason = "asked for"
	case len(c.Token) < len(fresh.Token):
		reason = "it was not one of ours"
	case tooOld(c.Created, now, s.TokenMaxAge):
		reason = "its age"
	}
	if reason != "" {
		k.log.Info("token replaced", "reason", reason, "created", c.Created)
		return fresh, previous, ""
	}
	return bridge.Identity{Token: c.Token, Created: c.Created, Port: fresh.Port}, previous, ""
}

// tooOld judges a token by the wall clock; 0 days are no limit. A token from
// the future, by more than a day, is of a clock that was wrong: it is replaced,
// too.
func tooOld(created, now time.Time, days int) bool {
	age := now.Round(0).Sub(created.Round(0))
	return days > 0 && (age < -24*time.Hour || age.Hours() > 24*float64(days))
}

// save keeps the identity. It is called one at a time.
func (k *keeper) save(id bridge.Identity, notebook bridge.Link) {
	if !k.write {
		return
	}
	c := connection{Token: id.Token, Created: id.Created, Port: id.Port}
	if notebook != (bridge.Link{}) {
		c.Notebook = notebook.URL()
	}
	if err := k.dir.Save(connectionFile, connectionVersion, c); err != nil {
		k.log.Error("connection not kept", "err", err)
	}
}
