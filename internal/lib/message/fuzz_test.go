package message

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// FuzzSeal: of a message that is accepted, every header arrives but those that a delivery leaves,
// none of our keys was the user's, and what the caller gave is not touched.
func FuzzSeal(f *testing.F) {
	f.Add("x", "k", "note", "value", []byte("a,b"), int64(1), "copy")
	f.Add("", "~d.1", "x-death", "", []byte("~d:=x"), int64(-1), "")
	f.Add("", "q", "BCC", "not a list", []byte(nil), int64(1)<<40, "~d")
	f.Add("", "q", "CC", "\xff\x00", []byte{0, ','}, int64(0), strings.Repeat("c", 256))
	f.Fuzz(func(t *testing.T, exchange, key, name, value string, list []byte, number int64, cc string) {
		var items []any
		for item := range strings.SplitSeq(string(list), ",") {
			items = append(items, item)
		}
		given := amqp091.Table{
			"BCC": items, "CC": []any{cc}, "number": int(number), "inside": amqp091.Table{name: []any{value, number}}, name: value,
		}
		before := maps.Clone(given)
		msg := amqp091.Publishing{Headers: given}
		if Validate(exchange, key, &msg, bounds) != nil {
			return
		}
		for _, k := range append(Copies(given), key) {
			require.False(t, strings.HasPrefix(k, Reserved), "%q could be a key of ours", k)
		}
		envelope := NewEnvelope(time.UnixMilli(number), time.Second, exchange)
		sealed := Seal(msg, envelope, nil, Reserved+":=ours")
		require.Equal(t, before, given)
		_, err := tableSize(sealed.Headers)
		require.NoError(t, err, "it can go on the wire")
		for n := range given {
			_, kept := sealed.Headers[n]
			require.Equal(t, n == delayer.Header || !slices.Contains(stripped[:], n), kept, n)
		}
		read, err := delayer.ParseHeader(sealed.Headers)
		require.NoError(t, err)
		require.Equal(t, envelope, read)
		own, _ := given["BCC"].([]any)
		require.Equal(t, append(slices.Clone(own), any(Reserved+":=ours")), sealed.Headers["BCC"])
	})
}
