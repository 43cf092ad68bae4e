package node_test

import (
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/node"
)

// entry is a header with the name h.
func entry(value ...byte) []byte { return append([]byte{1, 'h'}, value...) }

// headers is a content header that has just these.
func headers(table []byte) []byte {
	return append([]byte{0x20, 0, 0, 0, 0, byte(len(table))}, table...)
}

func TestDecodeProperties_Types(t *testing.T) {
	for name, c := range map[string]struct {
		encoded []byte
		want    any
	}{
		"bool":      {[]byte{'t', 1}, true},
		"int8":      {[]byte{'b', 0xFF}, int8(-1)},
		"uint8":     {[]byte{'B', 0xFF}, uint8(255)},
		"int16":     {[]byte{'s', 0xFF, 0xFE}, int16(-2)},
		"uint16":    {[]byte{'u', 0xFF, 0xFE}, uint16(65534)},
		"int32":     {[]byte{'I', 0xFF, 0xFF, 0xFF, 0xFD}, int32(-3)},
		"uint32":    {[]byte{'i', 0xFF, 0xFF, 0xFF, 0xFD}, uint32(4294967293)},
		"int64":     {[]byte{'l', 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFC}, int64(-4)},
		"float":     {[]byte{'f', 0x3F, 0xC0, 0, 0}, float32(1.5)},
		"double":    {[]byte{'d', 0x7F, 0xF0, 0, 0, 0, 0, 0, 0}, math.Inf(1)},
		"decimal":   {[]byte{'D', 2, 0, 0, 0, 5}, amqp091.Decimal{Scale: 2, Value: 5}},
		"string":    {[]byte{'S', 0, 0, 0, 2, 'h', 'i'}, "hi"},
		"bytes":     {[]byte{'x', 0, 0, 0, 2, 0, 1}, []byte{0, 1}},
		"no bytes":  {[]byte{'x', 0, 0, 0, 0}, []byte{}},
		"void":      {[]byte{'V'}, nil},
		"timestamp": {[]byte{'T', 0, 0, 0, 0, 0, 0, 0, 9}, time.Unix(9, 0)},
		"array":     {[]byte{'A', 0, 0, 0, 3, 't', 0, 'V'}, []any{false, nil}},
		"table":     {[]byte{'F', 0, 0, 0, 3, 1, 'k', 'V'}, amqp091.Table{"k": nil}},
	} {
		msg, err := node.DecodeProperties(headers(entry(c.encoded...)))
		require.NoError(t, err, name)
		assert.Equal(t, amqp091.Table{"h": c.want}, msg.Headers, name)
	}
}

func TestDecodeProperties_All(t *testing.T) {
	encoded := []byte{0xFF, 0xFC, 1, 'a', 1, 'b', 0, 0, 0, 0, 2, 7, 1, 'c', 1, 'd', 1, 'e', 1, 'f', 0, 0, 0, 0, 0, 0, 0, 1, 1, 'g', 1, 'h', 1, 'i', 1, 'j'}
	msg, err := node.DecodeProperties(encoded)
	require.NoError(t, err)
	assert.Equal(t, amqp091.Publishing{
		ContentType: "a", ContentEncoding: "b", Headers: amqp091.Table{}, DeliveryMode: 2, Priority: 7, CorrelationId: "c",
		ReplyTo: "d", Expiration: "e", MessageId: "f", Timestamp: time.Unix(1, 0), Type: "g", UserId: "h", AppId: "i",
	}, msg)
}

// FuzzDecodeProperties: nothing makes it panic, and what was read is what amqp091-go can write.
func FuzzDecodeProperties(f *testing.F) {
	for _, bad := range [][]byte{
		{}, {0x80, 0, 5, 'a'}, {0, 0, 1}, {0, 1}, headers(entry('?')), headers(entry('l', 1)), {0x20, 0, 0xFF, 0xFF, 0xFF, 0xFF},
	} {
		f.Add(bad)
		_, err := node.DecodeProperties(bad)
		require.ErrorContains(f, err, "its properties cannot be read", bad)
	}
	f.Add(headers(entry('F', 0, 0, 0, 3, 1, 'k', 'V')))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		if msg, err := node.DecodeProperties(encoded); err == nil {
			require.NoError(t, msg.Headers.Validate())
		}
	})
}
