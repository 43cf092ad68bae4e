package node

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// literal is all that a name can become in a program.
var literal = regexp.MustCompile(`^[A-Za-z0-9+/=,]*$`)

// FuzzExpression: no name leaves the one literal of the program.
func FuzzExpression(f *testing.F) {
	f.Add("orders", "rabbit@a", "/")
	f.Add(`">>). init:stop(). %`, "rabbit@a b", "',\n\x00")
	f.Fuzz(func(t *testing.T, exchange, node, vhost string) {
		text := expression(node, "ok.", time.Second, [][]byte{[]byte(vhost), []byte(exchange)})
		before, after, _ := strings.Cut(launcher, "%s")
		require.True(t, strings.HasPrefix(text, before) && strings.HasSuffix(text, after))
		inside := text[len(before) : len(text)-len(after)]
		require.Regexp(t, literal, inside)
		words := strings.Split(inside, ",")
		got, err := base64.StdEncoding.DecodeString(words[len(words)-1])
		require.NoError(t, err)
		require.Equal(t, exchange, string(got))
		require.NotContains(t, text, "'", "some wrappers put it between single quotes")
	})
}

// FuzzSplit: a quoted word is read as it was.
func FuzzSplit(f *testing.F) {
	f.Add("a b")
	f.Add(`'"\`)
	f.Fuzz(func(t *testing.T, word string) {
		words, err := split("x '" + strings.ReplaceAll(word, "'", `'\''`) + "'")
		require.NoError(t, err)
		require.Equal(t, []string{"x", strings.ToValidUTF8(word, "\uFFFD")}, []string{words[0], strings.ToValidUTF8(words[1], "\uFFFD")})
	})
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"rabbitmqctl":                        {"rabbitmqctl"},
		" kubectl  exec r-0\t-- rabbit ":     {"kubectl", "exec", "r-0", "--", "rabbit"},
		`'a b' "c d" e\ f`:                   {"a b", "c d", "e f"},
		`a'b'"c"`:                            {"abc"},
		`x '' ""`:                            {"x", "", ""},
		`"a\"b\\c\d\$e"`:                     {`a"b\c\d$e`},
		`'a\b' $HOME *`:                      {`a\b`, "$HOME", "*"},
		"ssh host sudo -u 'rabbit mq' \"x\"": {"ssh", "host", "sudo", "-u", "rabbit mq", "x"},
	} {
		got, err := split(line)
		require.NoError(t, err, line)
		require.Equal(t, want, got, line)
	}
}
