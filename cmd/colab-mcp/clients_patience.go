package main

import (
	"strings"
	"time"
)

// patienceOf is the longest that one call of ours takes: a client that gives
// up earlier loses the tab that was just accepted.
func patienceOf(s *settings) time.Duration {
	return max(time.Duration(s.UITimeout), time.Duration(s.SoftLimit))
}

// patience is patienceOf for the server that an entry starts: its own flags
// and variables go before s.
func (e entry) patience(s settings) time.Duration {
	for flag, d := range map[string]*duration{"--ui-timeout": &s.UITimeout, "--soft-limit": &s.SoftLimit} {
		var own duration
		if own.UnmarshalText([]byte(e.setting(flag))) == nil {
			*d = own
		}
	}
	return patienceOf(&s)
}

// setting is what an entry gives a flag of the server, "" if nothing.
func (e entry) setting(flag string) string {
	found := ""
	variable := "COLAB_MCP_" + strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", "_"))
	for _, key := range []string{"env", "environment"} {
		if env, ok := e.fields[key].(map[string]any); ok && env[variable] != nil {
			found, _ = env[variable].(string)
		}
	}
	for i, arg := range e.args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			found = value
		} else if arg == flag && i+1 < len(e.args) {
			found = e.args[i+1]
		}
	}
	return found
}
