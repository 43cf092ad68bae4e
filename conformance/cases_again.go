package conformance

import (
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

var againCases = []testCase{
	{Case: Case{"delayed-again", "a received message, published again with all its headers, must be delayed and arrive as the first time"}, check: delayedAgain},
}

// delayedAgain sends a message round several times, as retries do. RabbitMQ up to 3.12 drops one
// that comes with its x-death, taking it for a cycle.
func delayedAgain(t *trial) {
	const rounds = 3
	in, exchange := t.queue(t.name("queue")), t.exchange("direct")
	t.bind(in, "key", exchange)
	first := text("round-0")
	first.Headers = everyType()
	first.DeliveryMode = amqp091.Persistent
	plain := t.queue(t.name("plain"))
	t.must(t.w.Publish(t.ctx, "", plain.queue, first))
	outs := t.mustPublish(job{exchange, "key", t.short(), first})
	t.await(in, outs)
	marks := map[any]string{in.of(first.MessageId)[0].Headers[delayer.Header]: first.MessageId}
	for round := range rounds {
		last := in.of(outs[len(outs)-1].id())[0]
		m := republishing(last)
		m.MessageId = sprintf("round-%d", round+1)
		outs = append(outs, t.mustPublish(job{exchange, "key", t.short(), m})...)
		t.await(in, outs)
		got := in.of(m.MessageId)[0]
		mark := got.Headers[delayer.Header]
		if earlier, known := marks[mark]; known {
			t.errorf("message %s carries the %s of message %s: %v", m.MessageId, delayer.Header, earlier, mark)
		}
		marks[mark] = m.MessageId
	}
	t.exactly(in, outs)
	if missing := plain.await([]string{first.MessageId}, deadlineIn(t.h.Patience)); len(missing) > 0 {
		t.failf("the world: not even without delay arrived %s", list(missing))
	}
	want := plain.of(first.MessageId)[0]
	for _, o := range outs {
		got := in.of(o.id())[0]
		want.MessageId, want.RoutingKey = o.id(), "key"
		for _, d := range t.differences(want, got) {
			t.errorf("message %s: %s", o.id(), d)
		}
	}
}

// republishing is what an application publishes that sends on what it received.
func republishing(a Arrival) amqp091.Publishing {
	return amqp091.Publishing{
		Headers: a.Headers, ContentType: a.ContentType, ContentEncoding: a.ContentEncoding,
		DeliveryMode: a.DeliveryMode, Priority: a.Priority, CorrelationId: a.CorrelationId, ReplyTo: a.ReplyTo,
		MessageId: a.MessageId, Timestamp: a.Timestamp, Type: a.Type, UserId: a.UserId, AppId: a.AppId, Body: a.Body,
	}
}
