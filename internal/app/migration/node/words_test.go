package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		assert.Equal(t, want, got, line)
	}
}
