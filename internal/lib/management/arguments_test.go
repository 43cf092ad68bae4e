package management

import (
	"encoding/json"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestArguments: none are [], and one that AMQP has no type for is an error.
func TestArguments(t *testing.T) {
	for text, want := range map[string]amqp091.Table{`[]`: {}, `{}`: {}, `{"n":9007199254740993}`: {"n": int64(9007199254740993)}} {
		var a Arguments
		require.NoError(t, json.Unmarshal([]byte(text), &a), text)
		require.Equal(t, want, a.Table(), text)
	}
	var a Arguments
	require.EqualError(t, json.Unmarshal([]byte(`{"n":9223372036854775808}`), &a), `arguments: "n": 9223372036854775808 does not fit into 64 bits`)
	require.NotNil(t, a.Table(), "never nil")
}
