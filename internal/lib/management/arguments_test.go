package management

import (
	"encoding/json"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestArguments_EveryDigit(t *testing.T) {
	for text, want := range map[string]amqp091.Table{
		`[]`:                                    {},
		`{}`:                                    {},
		`{"n":9007199254740993}`:                {"n": int64(9007199254740993)},
		`{"n":-9223372036854775808,"f":1.0}`:    {"n": int64(-9223372036854775808), "f": 1.0},
		`{"t":{"a":[1,"x",true,null,{"b":2}]}}`: {"t": amqp091.Table{"a": []any{int64(1), "x", true, nil, amqp091.Table{"b": int64(2)}}}},
	} {
		var a Arguments
		require.NoError(t, json.Unmarshal([]byte(text), &a), text)
		require.Equal(t, want, a.Table(), text)
		require.NoError(t, a.Table().Validate(), text)
	}
	var a Arguments
	require.ErrorContains(t, json.Unmarshal([]byte(`{"n":9223372036854775808}`), &a), `argument "n": 9223372036854775808 has more than 64 bits`)
	require.NotNil(t, a.Table(), "never nil")
}
