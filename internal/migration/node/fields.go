package node

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// fields are the words of a line that a program printed. The first says what the line is; a wrong
// one makes err.
type fields struct {
	words []string
	err   *error // the first error of the output
}

// word returns a word as it is.
func (f fields) word(i int) string {
	if i >= len(f.words) {
		f.fail(fmt.Errorf("line %.60q has no word %d", strings.Join(f.words, " "), i))
		return ""
	}
	return f.words[i]
}

// bytes decodes a base64 word.
func (f fields) bytes(i int) []byte {
	data, err := base64.StdEncoding.DecodeString(f.word(i))
	f.fail(err)
	return data
}

// text decodes a base64 word.
func (f fields) text(i int) string { return string(f.bytes(i)) }

// number reads a decimal.
func (f fields) number(i int) int64 {
	n, err := strconv.ParseInt(f.word(i), 10, 64)
	f.fail(err)
	return n
}

func (f fields) fail(err error) {
	if err != nil && *f.err == nil {
		*f.err = fmt.Errorf("unexpected output: %w", err)
	}
}
