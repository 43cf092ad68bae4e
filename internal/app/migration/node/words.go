package node

import (
	"errors"
	"slices"
	"strings"
)

// split splits a command line at spaces. Single and double quotes and the backslash mean what they
// mean to a shell; nothing is expanded.
func split(line string) (words []string, err error) {
	const open, literal = "\"'", "$`\"\\" // what opens a quote; what a backslash escapes between double quotes
	var word []rune                       // nil between words; Grow begins one that may stay empty
	var quote, before rune                // the quote that is open; a backslash that escapes the next rune
	for _, r := range line {
		switch {
		case before != 0:
			if quote == '"' && !strings.ContainsRune(literal, r) {
				word = append(word, before)
			}
			word, before = append(word, r), 0
		case r == '\\' && quote != '\'':
			word, before = slices.Grow(word, 1), r
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && strings.ContainsRune(open, r):
			word, quote = slices.Grow(word, 1), r
		case quote == 0 && strings.ContainsRune(" \t\r\n", r):
			if word != nil {
				words, word = append(words, string(word)), nil
			}
		default:
			word = append(word, r)
		}
	}
	if word != nil {
		words = append(words, string(word))
	}
	switch {
	case before != 0:
		return nil, errors.New("it ends with a backslash")
	case quote != 0:
		return nil, errors.New("a quote is not closed")
	case len(words) == 0 || words[0] == "":
		return nil, errors.New("it names no command")
	}
	return words, nil
}
