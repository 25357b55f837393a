package bridge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// browserCommand splits the command of --browser; a leading ~/ is the home directory.
func browserCommand(command string) ([]string, error) {
	argv, err := splitCommand(command, runtime.GOOS != "windows")
	if err != nil {
		return nil, err
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, errors.New(`it names no program; leave it out for the system's browser, or give "none" for no browser`)
	}
	if strings.HasPrefix(strings.TrimLeft(command, " \t\n"), "~/") {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		argv[0] = filepath.Join(home, argv[0][2:])
	}
	return argv, nil
}

// splitCommand splits s into words as POSIX.1-2024, Shell Command Language 2.2, quotes them; nothing
// is expanded. Where a backslash is what paths are made of, backslashEscapes is false and it is a
// character like any other.
func splitCommand(s string, backslashEscapes bool) ([]string, error) {
	var (
		words []string
		word  strings.Builder
		begun bool // there is a word, perhaps an empty one
		quote byte // the open quote, or 0
	)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == 0:
			return nil, errors.New("it contains a zero byte")
		case c == '\\' && backslashEscapes && quote != '\'':
			i++
			if i == len(s) {
				return nil, errors.New("it ends with a backslash")
			}
			if s[i] == '\n' { // a line continued
				continue
			}
			if quote == '"' && strings.IndexByte("$`\"\\", s[i]) < 0 {
				word.WriteByte('\\')
			}
			word.WriteByte(s[i])
			begun = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("it has an opening %c quote and no closing one", quote)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
