package message

import (
	"math"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
