package bundle

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func content() *Content {
	return &Content{
		Envelope: delayer.Envelope{Due: time.Unix(1_795_329_200, 5e6), Delay: time.Hour, Exchange: "orders"},
		Key:      "a.b", To: []any{"~d:=x", "~d:=y.."}, Due: 1795329200000,
		Message: amqp091.Publishing{
			ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 9, CorrelationId: "c", ReplyTo: "r", Expiration: "1",
			MessageId: "m", Timestamp: time.Unix(7, 0), Type: "t", AppId: "a", Body: []byte("body"),
			Headers: amqp091.Table{
				"nothing": nil, "yes": true, "no": false, "byte": byte(200), "int8": int8(-3), "int16": int16(-300), "uint16": uint16(60000),
				"int32": int32(-1 << 31), "uint32": uint32(1<<32 - 1), "int64": int64(-1 << 63), "float32": float32(1.5), "float64": 1e300,
				"decimal": amqp091.Decimal{Scale: 2, Value: -5}, "text": "text\x00\xff", "bytes": []byte{0, 1}, "time": time.Unix(-5, 0).UTC(), "name\xff": 1.5,
				"table": amqp091.Table{"in": amqp091.Table{"it": []any{int32(1), "x", []any{}}}}, "": "no name",
			},
		},
	}
}

func TestContent_RoundTrip(t *testing.T) {
	for _, want := range []*Content{content(), {To: []any{"~d:=x"}, Envelope: delayer.Envelope{Due: time.Unix(0, 0)}, Message: amqp091.Publishing{Body: []byte{}}}} {
		written, err := want.Append(nil)
		require.NoError(t, err)
		got, err := ReadContent(written)
		require.NoError(t, err)
		require.Equal(t, *want, got)
		for size := range written {
			_, err := ReadContent(written[:size])
			require.Error(t, err, "the first %d of %d bytes", size, len(written))
		}
		_, err = ReadContent(append(written, 0))
		require.ErrorIs(t, err, ErrDamaged)
	}
	written, err := (&Content{To: []any{""}}).Append(nil)
	require.NoError(t, err)
	_, err = ReadContent(written)
	require.ErrorIs(t, err, ErrDamaged, "a million empty keys would be of 16 bytes each")
}

// FuzzReadContent: whatever is read without an error can be written again, and is then the same.
func FuzzReadContent(f *testing.F) {
	written, err := content().Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(written)
	f.Fuzz(func(t *testing.T, from []byte) {
		c, err := ReadContent(from)
		if err != nil {
			return
		}
		written, err := c.Append(nil)
		require.NoError(t, err)
		again, err := ReadContent(written)
		require.NoError(t, err)
		second, err := again.Append(nil)
		require.NoError(t, err)
		require.Equal(t, written, second) // not the contents: a NaN is not itself
	})
}
