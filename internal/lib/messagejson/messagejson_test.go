package messagejson

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestHeadersSurvive(t *testing.T) {
	headers := amqp091.Table{
		"void": nil, "bool": true, "string": "é\x00\u2028<", "bytes": []byte{0, 255}, "latin": "\xe9", "time": time.Unix(1700000000, 0).UTC(),
		"far": time.Unix(1<<45, 0).UTC(), "decimal": amqp091.Decimal{Scale: 2, Value: -5}, "f32": float32(0.1), "f64": math.Pi,
		"inf": math.Inf(-1), "i8": int8(-8), "u8": byte(8), "i16": int16(-16), "u16": uint16(16), "i32": int32(-32), "u32": uint32(32),
		"i64": int64(math.MaxInt64), "list": []any{int64(1), "two", []any{}}, "table": amqp091.Table{"deep": amqp091.Table{"n": nil}},
		"": "no name", "latin \xe9": "no UTF-8", "base64:": "as such a name", "base64:AA==": "as another",
	}
	raw, err := json.Marshal(Headers(headers))
	require.NoError(t, err)
	var got Headers
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, headers, amqp091.Table(got))
}

func TestHeaders_IntHasTheWidthOfTheWire(t *testing.T) {
	raw, err := json.Marshal(Headers{"small": 7, "large": math.MaxInt32 + 1})
	require.NoError(t, err)
	var got Headers
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, Headers{"small": int32(7), "large": int64(math.MaxInt32 + 1)}, got)
}

func TestHeadersRefused(t *testing.T) {
	_, err := json.Marshal(Headers{"x": struct{}{}})
	require.ErrorContains(t, err, `header "x"`)
	for _, bad := range []string{`{"x": {"type": "int128", "value": 1}}`, `{"x": {"type": "int8", "value": 300}}`, `{"x": 1}`,
		`[]`, `{"x": {"type": "array", "value": [{"type": "?"}]}}`, `{"x": {"type": "float64", "value": "much"}}`} {
		require.Error(t, json.Unmarshal([]byte(bad), &Headers{}), bad)
	}
}

func TestPropertiesSurvive(t *testing.T) {
	message := amqp091.Publishing{
		ContentType: "a", ContentEncoding: "b", CorrelationId: "c\xff", ReplyTo: "d", Expiration: "e", MessageId: "f", Type: "g",
		UserId: "h", AppId: "i", DeliveryMode: 1, Priority: 255, Timestamp: time.Unix(1700000000, 0).UTC(),
	}
	for _, m := range []amqp091.Publishing{message, {}} {
		raw, err := json.Marshal(PropertiesOf(&m))
		require.NoError(t, err)
		var p Properties
		require.NoError(t, json.Unmarshal(raw, &p))
		require.Equal(t, m, p.Publishing())
	}
}

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
