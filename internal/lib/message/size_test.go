package message

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
)

func TestSizeOfATable(t *testing.T) {
	size, err := tableSize(amqp091.Table{"ab": "cde", "n": int64(1), "t": amqp091.Table{"x": nil}, "l": []any{true}}, 0)
	require.NoError(t, err)
	require.Equal(t, 4+(1+2+1+4+3)+(1+1+1+8)+(1+1+1+4+(1+1+1))+(1+1+1+4+2), size)
}

func TestSmallFrames(t *testing.T) {
	msg := headers(strings.Repeat("x", 4<<10))
	require.ErrorContains(t, Validate("x", "k", &msg, Limits{FrameSize: 4 << 10}), "fit into one frame of 4096")
	require.NoError(t, Validate("x", "k", &msg, Limits{FrameSize: 8 << 10}))
	require.NoError(t, Validate("x", "k", &msg, Limits{}), "unlimited")
}

func TestWhatADeliveryLeftIsNotCounted(t *testing.T) {
	msg := amqp091.Publishing{Headers: amqp091.Table{"x-death": strings.Repeat("x", 8<<10)}}
	require.NoError(t, Validate("x", "k", &msg, Limits{FrameSize: 4 << 10}), "it is stripped")
}

// TestFrameSize: no frame of a message is larger than computed, neither as it is published nor with
// what the broker has added after all hops, and one of them is about as large.
func TestFrameSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 60, 255)
		keys := rapid.SliceOfN(text, 0, 80)
		lim := Limits{Growth: Growth{
			Hops: rapid.IntRange(1, 28).Draw(t, "hops"), KeySize: rapid.IntRange(8, 112).Draw(t, "key size"),
			NameSize: rapid.IntRange(10, 150).Draw(t, "name size"), Keys: rapid.IntRange(1, 30).Draw(t, "keys"),
		}}
		exchange, key := rapid.SampledFrom([]string{"", "orders"}).Draw(t, "exchange"), text.Draw(t, "key")
		msg := amqp091.Publishing{
			ContentType: "text/plain", MessageId: text.Draw(t, "id"),
			Headers: amqp091.Table{"note": text.Draw(t, "note"), "CC": anys(keys.Draw(t, "cc")), "BCC": anys(keys.Draw(t, "bcc"))},
		}
		computed, err := lim.frameSize(exchange, key, &msg)
		require.NoError(t, err)

		envelope := Envelope{ID: strings.Repeat("\xff", LongestID), Due: time.Now(), Exchange: exchange}
		published := Seal(msg, envelope, nil, ourKeys(lim, exchange, key, msg.Headers)...)
		delivered := Seal(msg, envelope, deaths(lim, key, msg.Headers))
		delete(delivered.Headers, "BCC")
		largest := max(encoded(t, published), encoded(t, delivered))
		require.LessOrEqual(t, largest, computed)
		require.Less(t, computed-largest, 128, "it is not refused for nothing")
	})
}

func anys(keys []string) []any {
	list := make([]any, len(keys))
	for i, k := range keys {
		list[i] = k
	}
	return list
}

// ourKeys are those that a backend adds to BCC.
func ourKeys(lim Limits, exchange, key string, headers amqp091.Table) []any {
	dots := strings.Repeat(".", max(strings.Count(key, "."), 15))
	destinations := 1
	if exchange == "" {
		destinations += len(Copies(headers))
	}
	var keys []any
	for range destinations {
		keys = append(keys, "~d:="+strings.Repeat("A", 22)+dots)
	}
	for range lim.Keys {
		keys = append(keys, strings.Repeat("k", lim.KeySize)+dots)
	}
	return keys
}

// deaths are the headers that RabbitMQ adds.
func deaths(lim Limits, key string, headers amqp091.Table) amqp091.Table {
	name := strings.Repeat("n", lim.NameSize)
	cc, _ := headers["CC"].([]any)
	entry := amqp091.Table{
		"count": int64(1), "reason": "expired", "queue": name, "exchange": name, "time": time.Now(), "routing-keys": append([]any{key}, cc...),
	}
	list := make([]any, lim.Hops)
	for i := range list {
		list[i] = entry
	}
	t := amqp091.Table{"x-death": list, "x-delivery-count": int64(1), "x-acquired-count": int64(1)}
	for _, which := range []string{"first", "last"} {
		t["x-"+which+"-death-reason"], t["x-"+which+"-death-queue"], t["x-"+which+"-death-exchange"] = "expired", name, name
	}
	return t
}

// encoded is the exact size of the frame with a message's properties.
func encoded(t require.TestingT, msg amqp091.Publishing) int {
	headers, err := tableSize(msg.Headers, 0)
	require.NoError(t, err)
	const frame, content, deliveryMode = 8, 14, 1
	size := frame + content + deliveryMode + headers
	for _, s := range []string{msg.ContentType, msg.MessageId} {
		if s != "" {
			size += 1 + len(s)
		}
	}
	require.NotEmpty(t, msg.Headers[delayer.Header])
	return size
}

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
		_, err := tableSize(sealed.Headers, 0)
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
