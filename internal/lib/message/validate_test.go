package message

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
)

var bounds = Limits{FrameSize: 128 << 10, User: "guest", MaxPriority: 4}

func TestValidateRefusesWhatTheBrokerWouldCloseOver(t *testing.T) {
	long := strings.Repeat("x", 256)
	loop := amqp091.Table{}
	loop["self"] = loop
	for name, c := range map[string]struct {
		exchange, key string
		msg           amqp091.Publishing
		want          string
	}{
		"long exchange":     {exchange: long, want: "exchange's name has 256 bytes"},
		"long key":          {exchange: "x", key: long, want: "routing key has 256 bytes"},
		"no destination":    {want: "neither an exchange nor a queue"},
		"reserved key":      {exchange: "x", key: "~d:5", want: "reserved"},
		"reserved word":     {exchange: "x", key: "~d.1.0", want: "reserved"},
		"long message id":   {key: "q", msg: amqp091.Publishing{MessageId: long}, want: "MessageId has 256"},
		"long content type": {key: "q", msg: amqp091.Publishing{ContentType: long}, want: "ContentType has 256"},
		"long encoding":     {key: "q", msg: amqp091.Publishing{ContentEncoding: long}, want: "ContentEncoding"},
		"long correlation":  {key: "q", msg: amqp091.Publishing{CorrelationId: long}, want: "CorrelationId"},
		"long reply-to":     {key: "q", msg: amqp091.Publishing{ReplyTo: long}, want: "ReplyTo"},
		"long type":         {key: "q", msg: amqp091.Publishing{Type: long}, want: "Type has"},
		"long app id":       {key: "q", msg: amqp091.Publishing{AppId: long}, want: "AppId"},
		"expiration":        {key: "q", msg: amqp091.Publishing{Expiration: "1000"}, want: "x-message-ttl"},
		"delivery mode":     {key: "q", msg: amqp091.Publishing{DeliveryMode: 3}, want: "DeliveryMode 3"},
		"priority":          {key: "q", msg: amqp091.Publishing{Priority: 5}, want: "above 4"},
		"other user":        {key: "q", msg: amqp091.Publishing{UserId: "root"}, want: `"guest"`},
		"unsupported type":  {key: "q", msg: headers(map[string]any{}), want: "no type for a map[string]interface {}"},
		"strings":           {key: "q", msg: headers([]string{"a"}), want: "no type for a []string"},
		"struct":            {key: "q", msg: headers(struct{}{}), want: "no type"},
		"nested":            {key: "q", msg: headers([]any{amqp091.Table{"k": uint64(1)}}), want: "no type for a uint64"},
		"endless":           {key: "q", msg: amqp091.Publishing{Headers: loop}, want: "nested more than"},
		"long header name":  {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{long: 1}}, want: "name has 256"},
		"huge headers":      {key: "q", msg: headers(strings.Repeat("x", 128<<10)), want: "fit into one frame"},
		"CC not a list":     {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{"CC": "a"}}, want: "CC is a string"},
		"CC of numbers":     {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{"CC": []any{1}}}, want: "CC holds a int"},
		"BCC reserved":      {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{"BCC": []any{"~d:=x"}}}, want: "reserved"},
		"line break":        {exchange: "x\n", key: "q", want: "line break"},
		"queue, line break": {key: "q\r", want: "line break"},
		"CC, line break":    {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{"CC": []any{"a\nb"}}}, want: "line break"},
		"native delay":      {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{"x-opt-delivery-time": nil}}, want: "would delay the message in each queue"},
		"pseudo reply-to":   {key: "q", msg: amqp091.Publishing{ReplyTo: "amq.rabbitmq.reply-to"}, want: "exists only on the channel"},
		"NaN":               {key: "q", msg: headers(math.NaN()), want: "NaN"},
		"infinity":          {key: "q", msg: headers(math.Inf(1)), want: "infinities"},
		"minus infinity":    {key: "q", msg: headers(float32(math.Inf(-1))), want: "infinities"},
		"NaN32":             {key: "q", msg: headers(float32(math.NaN())), want: "NaN"},
		"nested NaN":        {key: "q", msg: headers([]any{amqp091.Table{"x": []any{math.NaN()}}}), want: "NaN"},
		"deep table":        {key: "q", msg: headers(nested(33)), want: "nested more than 32"},
		"long list":         {key: "q", msg: headers(make([]any, 8193)), want: "8193 entries"},
		"CC nil":            {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{"CC": nil}}, want: "CC is a <nil>"},
		"queue not UTF-8":   {key: "\xff", want: "not UTF-8"},
		"exchange, UTF-8":   {exchange: "\xff", key: "q", want: "not UTF-8"},
		"CC not UTF-8":      {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{"CC": []any{"\xff"}}}, want: "not UTF-8"},
		"CC too long":       {key: "q", msg: amqp091.Publishing{Headers: amqp091.Table{"CC": []any{long}}}, want: "CC has 256"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(c.exchange, c.key, &c.msg, bounds)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 400, "an error must not repeat a large input")
		})
	}
}

func headers(v any) amqp091.Publishing {
	return amqp091.Publishing{Headers: amqp091.Table{"k": v}}
}

// nested returns so many tables, one in another.
func nested(depth int) any {
	var v any = amqp091.Table{}
	for range depth - 1 {
		v = amqp091.Table{"k": v}
	}
	return v
}

func TestValidatePrefix(t *testing.T) {
	for _, good := range []string{"delayer", "été", "a.b-c", strings.Repeat("p", 128)} {
		require.NoError(t, ValidatePrefix(good))
	}
	for _, bad := range []string{"", "amq.x", "a\nb", "a\rb", "a\x00", "\x1b[31m", "\u0085", "\xff", strings.Repeat("p", 129)} {
		require.Error(t, ValidatePrefix(bad), "%q", bad)
	}
}

func TestValidateTakesWhatAMQPCan(t *testing.T) {
	msg := amqp091.Publishing{
		UserId: "guest", Priority: 4, DeliveryMode: amqp091.Transient, MessageId: strings.Repeat("x", 255),
		Headers: amqp091.Table{
			"nil": nil, "bool": true, "byte": byte(1), "int8": int8(1), "int16": int16(1), "int": 1, "int32": int32(1),
			"int64": int64(1), "uint16": uint16(1), "uint32": uint32(1), "float32": float32(1), "float64": 1.0, "string": "s",
			"bytes": []byte("b"), "decimal": amqp091.Decimal{Scale: 1, Value: 2}, "time": time.Now(),
			"table": amqp091.Table{"a": []any{"b", nil}}, "": "no name", "\xff": "\xff\x00", "deep": nested(32),
			"many": make([]any, 8000), "far": time.Unix(1<<61, 0), "huge": math.MaxFloat64, "CC": []any{"a", "b"}, "BCC": []any{},
		},
	}
	require.NoError(t, Validate("x", strings.Repeat("k", 255), &msg, bounds))
	require.NoError(t, Validate("", "queue", &amqp091.Publishing{}, bounds))
}

func TestOwns(t *testing.T) {
	for name, want := range map[string]bool{
		"p.delivery": true, "p.": true, "p": false, "px.delivery": false, "": false,
		"p.serve.back": true, "p.serve.back.1": false, "p.serve.queue.1": true, "p.serve.backs.1": true,
	} {
		assert.Equal(t, want, Owns("p", name), name)
	}
}

func TestSealStripsWhatADeliveryLeft(t *testing.T) {
	received := amqp091.Table{
		"x-death": []any{amqp091.Table{"count": int64(1)}}, "x-first-death-queue": "q", "x-first-death-reason": "expired",
		"x-first-death-exchange": "", "x-last-death-queue": "q", "x-last-death-reason": "expired", "x-last-death-exchange": "",
		"x-delay": int32(5), delayer.Header: "old 1 x", Stamp: amqp091.Table{}, "mine": "kept",
	}
	e := Envelope{ID: "id", Due: time.UnixMilli(7), Delay: 4500 * time.Microsecond, Exchange: "x"}
	sealed := Seal(amqp091.Publishing{Headers: received}, e, amqp091.Table{"x-delay": int64(7)})
	require.Equal(t, amqp091.Table{"mine": "kept", "x-delay": int64(7), delayer.Header: "id 7 5 x"}, sealed.Headers)
	require.Len(t, received, 11, "the caller's headers must stay as they are")
}

// TestSeal_CallersBytes: the caller may change byte slices while the message is being written.
func TestSeal_CallersBytes(t *testing.T) {
	bytes := []byte("header")
	sealed := Seal(amqp091.Publishing{Headers: amqp091.Table{"k": bytes, "list": []any{amqp091.Table{"k": bytes}}}}, Envelope{}, nil)
	copy(bytes, "......")
	require.Equal(t, []byte("header"), sealed.Headers["k"])
	require.Equal(t, []any{amqp091.Table{"k": []byte("header")}}, sealed.Headers["list"])
}

func TestSealDeliveryMode(t *testing.T) {
	for given, want := range map[uint8]uint8{0: amqp091.Persistent, 1: amqp091.Transient, 2: amqp091.Persistent} {
		require.Equal(t, want, Seal(amqp091.Publishing{DeliveryMode: given}, Envelope{}, nil).DeliveryMode)
	}
}

func TestSealKeepsIntsWhole(t *testing.T) {
	sealed := Seal(amqp091.Publishing{Headers: amqp091.Table{
		"small": 5, "big": math.MaxInt32 + 1, "list": []any{math.MinInt64}, "table": amqp091.Table{"big": math.MaxInt64},
	}}, Envelope{}, nil)
	require.Equal(t, 5, sealed.Headers["small"])
	require.Equal(t, int64(math.MaxInt32+1), sealed.Headers["big"])
	require.Equal(t, []any{int64(math.MinInt64)}, sealed.Headers["list"])
	require.Equal(t, amqp091.Table{"big": int64(math.MaxInt64)}, sealed.Headers["table"])
}

// TestNativeDelay: a time that has passed by the broker's own clock is removed, any other refused.
func TestNativeDelay(t *testing.T) {
	due := time.Now().Truncate(time.Second).Add(700 * time.Millisecond)
	died := func(at time.Time) amqp091.Table {
		return amqp091.Table{NativeDelay: due.UnixMilli(), "x-death": []any{amqp091.Table{"reason": "expired", "time": at}}}
	}
	for name, c := range map[string]struct {
		headers amqp091.Table
		valid   bool
	}{
		"delivered":                      {died(due.Truncate(time.Second)), true}, // in whole seconds
		"delivered late":                 {died(due.Add(time.Hour)), true},
		"set after a delivery":           {died(due.Add(-time.Second)), false},
		"never delivered":                {amqp091.Table{NativeDelay: due.UnixMilli()}, false},
		"never delivered, and it passed": {amqp091.Table{NativeDelay: due.Add(-time.Hour).UnixMilli()}, false},
		"a text":                         {amqp091.Table{NativeDelay: "5"}, false},
	} {
		msg := amqp091.Publishing{Headers: c.headers}
		err := Validate("", "q", &msg, Limits{})
		if !c.valid {
			require.ErrorContains(t, err, "would delay the message in each queue", name)
			continue
		}
		require.NoError(t, err, name)
		require.NotContains(t, Seal(msg, Envelope{ID: "x"}, nil).Headers, NativeDelay, name)
	}
}

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
