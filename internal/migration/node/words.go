package node

import (
	"errors"
	"strings"
)

// split splits a command line at spaces. Single and double quotes and the backslash mean what they
// mean to a shell; nothing is expanded.
func split(line string) ([]string, error) {
	s := splitter{}
	for _, r := range line {
		s.next(r)
	}
	switch {
	case s.escaped:
		return nil, errors.New("it ends with a backslash")
	case s.quote != 0:
		return nil, errors.New("a quote is not closed")
	}
	s.end()
	if len(s.words) == 0 || s.words[0] == "" {
		return nil, errors.New("it names no command")
	}
	return s.words, nil
}

// A splitter reads a command line rune by rune.
type splitter struct {
	words   []string
	word    strings.Builder
	inWord  bool
	quote   rune // the quote that is open, or 0
	escaped bool // the last rune was a backslash
}

func (s *splitter) next(r rune) {
	switch {
	case s.escaped:
		if s.quote == '"' && !strings.ContainsRune("$`\"\\", r) {
			s.word.WriteRune('\\')
		}
		s.word.WriteRune(r)
		s.escaped = false
	case r == '\\' && s.quote != '\'':
		s.escaped, s.inWord = true, true
	case s.quote != 0:
		if r == s.quote {
			s.quote = 0
			return
		}
		s.word.WriteRune(r)
	case r == '\'' || r == '"':
		s.quote, s.inWord = r, true
	case strings.ContainsRune(" \t\r\n", r):
		s.end()
	default:
		s.word.WriteRune(r)
		s.inWord = true
	}
}

// end ends a word, if one has begun.
func (s *splitter) end() {
	if s.inWord {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.inWord = false
}
