package message

import (
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

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
