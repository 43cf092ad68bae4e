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
