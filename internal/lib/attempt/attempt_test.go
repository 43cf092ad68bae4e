package attempt_test

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
)

var now = time.UnixMilli(1_700_000_000_000)

func original() amqp091.Delivery {
	return amqp091.Delivery{
		Headers: amqp091.Table{
			"CC": []any{"copy"}, "kind": "order", delayer.Header: "id1 1699999999999 orders",
			"x-death": []any{amqp091.Table{"count": int64(1)}}, "x-first-death-queue": "wait",
		},
		ContentType: "text/plain", DeliveryMode: 2, Priority: 9, CorrelationId: "c", ReplyTo: "r", Expiration: "60000",
		MessageId: "m", Timestamp: now, Type: "t", UserId: "alice", AppId: "a", Exchange: "orders", RoutingKey: "order.new",
		Body: []byte("body"),
	}
}

// delivered is what a consumer of queue gets of a publishing.
func delivered(p amqp091.Publishing, queue string) amqp091.Delivery {
	p.Headers["x-death"] = []any{}
	p.Headers["x-last-death-queue"] = "wait"
	p.Headers["x-delay"] = int32(-100)
	p.Headers[message.NativeDelay] = int64(5)
	p.Headers[delayer.Header] = "id2 1700000000000 "
	return amqp091.Delivery{
		Headers: p.Headers, ContentType: p.ContentType, DeliveryMode: p.DeliveryMode, Priority: p.Priority,
		CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type,
		UserId: p.UserId, AppId: p.AppId, RoutingKey: queue, Body: p.Body,
	}
}

func TestState_HandlerSeesFirstAttempt(t *testing.T) {
	d := original()
	s := attempt.Of("q", &d, now)
	assert.Equal(t, d, s.Seen(d), "the first attempt is as the broker delivered it")
	for n := 1; n <= 3; n++ {
		s = s.Fail(now.Add(time.Duration(n)*time.Second), "broken")
		p := s.Publishing(&d, 4)
		assert.NotContains(t, p.Headers, "CC")
		assert.Empty(t, p.Expiration)
		assert.Empty(t, p.UserId)
		assert.EqualValues(t, 4, p.Priority)
		d = delivered(p, "q")
		s = attempt.Of("q", &d, now.Add(time.Hour))
		assert.Equal(t, n, s.Failures)
		assert.Equal(t, now.Add(time.Second), s.First)
		assert.Equal(t, "alice", s.Original.UserID)
	}
	want := original()
	delete(want.Headers, "x-death")
	delete(want.Headers, "x-first-death-queue")
	want.UserId = "" // the broker has not checked the header's
	assert.Equal(t, want, s.Seen(d))
	assert.Contains(t, d.Headers, attempt.Header, "the delivery itself is not modified")
	assert.Equal(t, "broken", s.LastError())
}

func TestState_KeepsLastFailures(t *testing.T) {
	s := attempt.State{Queue: "q"}
	for range 25 {
		s = s.Fail(now, "x")
	}
	require.Len(t, s.History, 10)
	assert.Equal(t, 16, s.History[0].Attempt)
	assert.Equal(t, 25, s.History[9].Attempt)
}

func TestOf_Forged(t *testing.T) {
	for name, header := range map[string]any{
		"no table":      "attempt 7",
		"other queue":   amqp091.Table{"queue": "other", "failures": int64(3)},
		"no queue":      amqp091.Table{"failures": int64(3)},
		"queue's type":  amqp091.Table{"queue": int64(1), "failures": int64(3)},
		"failures text": amqp091.Table{"queue": "q", "failures": "3"},
		"negative":      amqp091.Table{"queue": "q", "failures": int64(-1)},
		"lowest":        amqp091.Table{"queue": "q", "failures": int64(math.MinInt64)},
	} {
		t.Run(name, func(t *testing.T) {
			d := amqp091.Delivery{Headers: amqp091.Table{attempt.Header: header}}
			assert.Zero(t, attempt.Of("q", &d, now).Failures)
			assert.NotContains(t, attempt.Of("q", &d, now).Seen(d).Headers, attempt.Header)
		})
	}
	d := amqp091.Delivery{Headers: amqp091.Table{attempt.Header: amqp091.Table{
		"queue": "q", "failures": int64(1) << 31, "first": int64(math.MaxInt64), "history": []any{"x", nil},
		"priority": int64(9999), "exchange": strings.Repeat("x", 1000), "cc": "no list",
	}}}
	s := attempt.Of("q", &d, now)
	assert.Equal(t, attempt.MaxFailures, s.Failures)
	assert.Equal(t, now, s.First, "no failure lies in the future")
	assert.Empty(t, s.History)
	assert.Len(t, s.Original.Exchange, 255)
	assert.Equal(t, attempt.MaxFailures, s.Fail(now, "x").Failures)
}

func FuzzBound(f *testing.F) {
	f.Add("a")
	f.Add(strings.Repeat("ä", 400))
	f.Add(strings.Repeat("\xff", 2000))
	f.Fuzz(func(t *testing.T, text string) {
		got := attempt.Bound(text)
		if len(got) > 500 || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid: %v", len(got), utf8.ValidString(got))
		}
		if utf8.ValidString(text) && len(text) <= 500 && got != text {
			t.Errorf("%q was changed to %q", text, got)
		}
	})
}

func FuzzOf(f *testing.F) {
	f.Add("q", int64(1), int64(5), "error", []byte("x"))
	f.Fuzz(func(t *testing.T, queue string, failures, first int64, text string, raw []byte) {
		d := amqp091.Delivery{Headers: amqp091.Table{attempt.Header: amqp091.Table{
			"queue": queue, "failures": failures, "first": first, "exchange": text, "reason": raw,
			"history": []any{amqp091.Table{"attempt": failures, "at": first, "error": text}},
		}}}
		s := attempt.Of("q", &d, now).Fail(now, text)
		if s.Failures < 1 || s.Failures > attempt.MaxFailures || s.First.After(now) || len(s.History) > 10 {
			t.Errorf("%+v", s)
		}
		p := s.Publishing(&d, 9)
		if err := p.Headers.Validate(); err != nil {
			t.Error(err)
		}
	})
}

// TestBelongs: a publisher does not choose where what is parked is sent.
func TestBelongs(t *testing.T) {
	for _, c := range []struct {
		parked, queue string
		want          bool
	}{
		{"orders.parked", "orders", true},
		{"orders.parked", "victim", false},
		{"p.serve.parked.orders", "p.serve.back.orders", true},
		{"p.serve.parked.orders", "p.serve.back.others", false},
		{"p.serve.parked.orders", "q.serve.back.orders", false},
		{"p.serve.parked.a.serve.parked.b", "p.serve.back.a.serve.parked.b", true},
		{"all", "orders", false},
	} {
		assert.Equal(t, c.want, attempt.Belongs(c.parked, c.queue), "%s of %s", c.parked, c.queue)
	}
	_, ok := attempt.Parked(&amqp091.Delivery{Headers: amqp091.Table{attempt.Header: amqp091.Table{"queue": strings.Repeat("q", 256)}}}, now)
	assert.False(t, ok, "no queue has such a name, and to ask for it would end the connection")
}
