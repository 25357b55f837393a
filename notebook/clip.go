package notebook

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clip is s on one line in at most n runes; "…" stands for what is missing.
func clip(s string, n int) string {
	s = oneLine(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n--; n == 0 {
			return s[:i] + "…"
		}
	}
	return ""
}

// oneLine is s without controls and with single spaces.
func oneLine(s string) string { return strings.Join(strings.Fields(plain(s)), " ") }

// bytesText is a size as people read it: 4,812,345 bytes.
func bytesText(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if n == 1 {
		return s + " byte"
	}
	return s + " bytes"
}
