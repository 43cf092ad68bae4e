package conformance

import (
	"maps"
	"reflect"
	"strings"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// invalid returns messages, by what is wrong with each.
func (t *trial) invalid(in *receiver) map[string]job {
	name := strings.Repeat("n", 256)
	bad := map[string]job{
		"routing key of 256 bytes":   {"", name, t.short(), text("")},
		"exchange name of 256 bytes": {name, "key", t.short(), text("")},
	}
	with := func(what string, change func(*amqp091.Publishing)) {
		j := to(in, "", t.short())
		change(&j.msg)
		bad[what] = j
	}
	header := func(what, name string, value any) {
		with(what, func(m *amqp091.Publishing) { m.Headers = amqp091.Table{name: value} })
	}
	header("header that is a map", "h", map[string]any{"a": "b"})
	header("header that is a []string", "h", []string{"a"})
	header("header that is a struct", "h", struct{ A int }{1})
	header("header that is a pointer", "h", new(string))
	header("header that is a uint64", "h", uint64(1))
	header("header that is a func", "h", func() {})
	header("a struct in a table in an array", "h", []any{amqp091.Table{"deep": struct{}{}}})
	header("header name of 256 bytes", name, "x")
	header("headers of 200 KiB", "h", strings.Repeat("x", 200<<10))
	header("CC that is a string", "CC", in.queue)
	header("CC that is a []string", "CC", []string{in.queue})
	header("CC of numbers", "CC", []any{int64(1)})
	header("BCC that is a string", "BCC", in.queue)
	header("BCC of numbers", "BCC", []any{in.queue, int64(1)})
	with("expiration", func(m *amqp091.Publishing) { m.Expiration = "60000" })
	for i, field := range reflect.VisibleFields(reflect.TypeFor[amqp091.Publishing]()) {
		if field.Type.Kind() == reflect.String && field.Name != "Expiration" {
			with(field.Name+" of 256 bytes", func(m *amqp091.Publishing) { reflect.ValueOf(m).Elem().Field(i).SetString(name) })
		}
	}
	if t.lim.MaxPriority < 255 {
		with("priority above Limits().MaxPriority", func(m *amqp091.Publishing) { m.Priority = t.lim.MaxPriority + 1 })
	}
	return bad
}

// invalidMessages publishes invalid messages among valid ones, which must all arrive.
func invalidMessages(t *trial) {
	const valid = 150
	in := t.queue(t.name("queue"))
	var wg sync.WaitGroup
	var outs []outcome
	wg.Go(func() {
		outs = t.publishAll(jobs(valid, "valid", func(_ int, id string) job { return to(in, id, t.short()) }))
	})
	for what, j := range t.invalid(in) {
		if j.msg.MessageId == "" {
			j.msg.MessageId = what
		}
		o := t.publish(j)
		o.msg.MessageId = what // for what is printed
		t.refused(o, delayer.ErrInvalid)
	}
	wg.Wait()
	t.allStored(outs)
	t.exactly(in, outs)
}

func untouched(t *trial) {
	in := t.queue(t.name("queue"))
	nowhere := t.name("nowhere")
	deep := func() amqp091.Table {
		return amqp091.Table{
			"table": amqp091.Table{"array": []any{amqp091.Table{"leaf": "kept"}}},
			"bytes": []byte("kept"), "CC": []any{nowhere}, "BCC": []any{nowhere},
			// A received message has these; a Delayer removes them from its own copy.
			delayer.Header: "id 1 exchange", "x-death": []any{amqp091.Table{"queue": "q", "count": int64(1)}},
			"x-first-death-queue": "q",
		}
	}
	list := jobs(50, "message", func(_ int, id string) job {
		j := to(in, id, t.short())
		j.msg.Headers = deep()
		return j
	})
	outs := t.mustPublish(list...)
	for _, o := range outs {
		if !reflect.DeepEqual(o.msg.Headers, deep()) {
			t.errorf("message %s: the caller's headers are now %v, were %v", o.id(), o.msg.Headers, deep())
		}
		if string(o.msg.Body) != o.id() {
			t.errorf("message %s: the caller's body is now %q", o.id(), o.msg.Body)
		}
		// Publish has returned, so the caller may write to the message's memory.
		copy(o.msg.Body, strings.Repeat("overwritten", 3))
		copy(o.msg.Headers["bytes"].([]byte), "lost")
		o.msg.Headers["table"].(amqp091.Table)["array"] = "lost"
		maps.DeleteFunc(o.msg.Headers, func(string, any) bool { return true })
	}
	t.exactly(in, outs)
	for _, o := range outs {
		a := in.of(o.id())[0]
		bytes, _ := a.Headers["bytes"].([]byte)
		table, _ := a.Headers["table"].(amqp091.Table)
		array, _ := table["array"].([]any)
		if string(a.Body) != o.id() || string(bytes) != "kept" || len(array) != 1 {
			t.errorf("message %s: what the caller wrote to its memory after Publish arrived: body %q, headers %v", o.id(), a.Body, a.Headers)
		}
	}
}

// delayedAgain delays a received message again, several times, as retries do. RabbitMQ up to 3.12
// drops a message that still has its x-death: it takes that for a cycle.
func delayedAgain(t *trial) {
	in, exchange := t.routed("direct", "key")
	first := text("round-0")
	first.Headers = everyType()
	first.DeliveryMode = amqp091.Persistent
	plain := t.queue(t.name("plain"))
	t.must(t.w.Publish(t.ctx, "", plain.queue, first))
	outs := t.mustPublish(job{exchange, "key", t.short(), first})
	t.await(in, outs)
	marks := map[any]string{in.of(first.MessageId)[0].Headers[delayer.Header]: first.MessageId}
	for round := range 3 {
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
	if missing := plain.await([]string{first.MessageId}, t.h.Patience); len(missing) > 0 {
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

// republishing returns a received message as an application publishes it again.
func republishing(a Arrival) amqp091.Publishing {
	return amqp091.Publishing{
		Headers: a.Headers, ContentType: a.ContentType, ContentEncoding: a.ContentEncoding,
		DeliveryMode: a.DeliveryMode, Priority: a.Priority, CorrelationId: a.CorrelationId, ReplyTo: a.ReplyTo, Expiration: a.Expiration,
		MessageId: a.MessageId, Timestamp: a.Timestamp, Type: a.Type, UserId: a.UserId, AppId: a.AppId, Body: a.Body,
	}
}
