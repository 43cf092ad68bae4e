package message

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// BenchmarkSeal is what every Publish does to a message: an envelope of its own, and the headers
// copied, of which there are as many as a message that was received has.
func BenchmarkSeal(b *testing.B) {
	for name, headers := range map[string]amqp091.Table{
		"headers=0": nil,
		"headers=4": {"tenant": "a", "attempt": int64(2), "trace": "00-4bf92f", "x-death": []any{}},
	} {
		b.Run(name, func(b *testing.B) {
			msg := amqp091.Publishing{Headers: headers, Body: []byte("x")}
			due := time.Now().Add(time.Minute)
			keys := []any{"~:=4>2", "~:=2>end", "~:=AAAAAAAAAAAAAAAAAAAAAA"}
			b.ReportAllocs()
			for b.Loop() {
				Recycle(Seal(msg, NewEnvelope(due, time.Minute, "orders"), nil, keys...))
			}
		})
	}
}

// BenchmarkValidate is the check of a message before anything is sent.
func BenchmarkValidate(b *testing.B) {
	msg := amqp091.Publishing{
		Headers: amqp091.Table{"tenant": "a", "attempt": int64(2)}, MessageId: "4711", Body: []byte("x"),
	}
	limits := Limits{FrameSize: 128 << 10, User: "guest", MaxPriority: 9}
	b.ReportAllocs()
	for b.Loop() {
		if err := Validate("orders", "order.expired", &msg, limits); err != nil {
			b.Fatal(err)
		}
	}
}
