package messagejson

import (
	"bytes"
	"encoding/json"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	for text, want := range map[string]amqp091.Table{
		`{}`:                     {},
		`null`:                   {},
		`{"n":9007199254740993}`: {"n": int64(9007199254740993)},
		`{"n":-9223372036854775808,"f":1.0,"e":1e2}`: {"n": int64(-9223372036854775808), "f": 1.0, "e": 100.0},
		`{"t":{"a":[1,"x",true,null,{"b":2},[3]]}}`:  {"t": amqp091.Table{"a": []any{int64(1), "x", true, nil, amqp091.Table{"b": int64(2)}, []any{int64(3)}}}},
	} {
		table, err := Table([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, table, text)
		require.NoError(t, table.Validate(), text)
	}
	for text, want := range map[string]string{
		`{"n": 9223372036854775808}`: `"n": 9223372036854775808 does not fit into 64 bits`,
		`{"a": {"b": [1, -1e999]}}`:  `"a": "b": -1e999 does not fit into 64 bits`,
		`[]`:                         `it is not a JSON object`,
		`{"a": `:                     `it is not a JSON object`,
	} {
		_, err := Table([]byte(text))
		require.EqualError(t, err, want, text)
	}
}

// FuzzTable: what is read can be sent, and keeps the names.
func FuzzTable(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `"a"`, `{"x-delay": 5}`, `{"n": 9223372036854775808, "f": -1e-400}`, `{"a": {"b": [[{"c": null}]]}}`,
		`{"a": 1, "a": 2}`, `{"\u0000": "\ud800"}`, `{"n": -0, "f": -0.0, "e": 1E+2}`, `{"a": 1} {`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := Table(text)
		if err != nil {
			require.Nil(t, table)
			return
		}
		require.NoError(t, table.Validate())
		var names map[string]json.RawMessage
		require.NoError(t, json.NewDecoder(bytes.NewReader(text)).Decode(&names))
		require.Len(t, table, len(names))
		for name := range names {
			require.Contains(t, table, name)
		}
	})
}
