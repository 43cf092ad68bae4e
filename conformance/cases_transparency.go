package conformance

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

func properties(t *trial) {
	full := amqp091.Publishing{
		MessageId: "all", ContentType: "application/json", ContentEncoding: "gzip",
		DeliveryMode: amqp091.Persistent, Priority: min(9, t.lim.MaxPriority), CorrelationId: "correlation",
		ReplyTo: "reply.queue", Timestamp: time.Unix(1_700_000_000, 0), Type: "order.expired",
		UserId: t.h.User, AppId: "conformance", Body: []byte("body"),
	}
	transient := full
	transient.MessageId, transient.DeliveryMode = "transient", amqp091.Transient
	unset := full
	unset.MessageId, unset.DeliveryMode = "mode not set", 0
	low := full
	low.MessageId, low.Priority = "low", min(1, t.lim.MaxPriority)
	longest := full
	longest.MessageId = strings.Repeat("i", 255)
	longest.CorrelationId = strings.Repeat("c", 255)
	longest.Type = strings.Repeat("é", 127)
	t.compare("key", full, transient, unset, low, longest, amqp091.Publishing{MessageId: "bare"})
}

func everyType() amqp091.Table {
	leaf := amqp091.Table{"string": "leaf", "nil": nil, "int64": int64(math.MinInt64)}
	return amqp091.Table{
		"nil": nil, "true": true, "false": false,
		"byte": byte(255), "int8": int8(-128), "int16": int16(math.MinInt16), "uint16": uint16(math.MaxUint16),
		"int32": int32(math.MinInt32), "uint32": uint32(math.MaxUint32),
		"int64": int64(math.MaxInt64), "float32": float32(1.5), "float64": math.Pi,
		"string": "text, ünïcödé", "empty": "", "long": strings.Repeat("x", 10_000),
		"bytes": []byte{0, 1, 254, 255}, "decimal": amqp091.Decimal{Scale: 2, Value: 12345},
		"time":  time.Unix(1_600_000_000, 0),
		"table": amqp091.Table{"inner": leaf, "array": []any{leaf, "x"}},
		"array": []any{"a", int64(1), true, nil, leaf, []any{"b", []byte("c")}},
	}
}

func headerTypes(t *trial) {
	all := text("together")
	all.Headers = everyType()
	msgs := []amqp091.Publishing{all}
	for name, value := range everyType() {
		m := text("alone: " + name)
		m.Headers = amqp091.Table{name: value}
		msgs = append(msgs, m)
	}
	odd := text("odd names")
	odd.Headers = amqp091.Table{strings.Repeat("n", 255): "long", "": "none", "with space": 1.0, "x-mine": "x"}
	t.compare("key", append(msgs, odd)...)
}

func bodies(t *trial) {
	body := func(id string, n int) amqp091.Publishing {
		m := amqp091.Publishing{MessageId: id, Body: make([]byte, n)}
		for i := range m.Body {
			m.Body[i] = byte(i * 31)
		}
		return m
	}
	t.compare("key", body("empty", 0), body("one byte", 1), body("128 KiB", 128<<10), body("1 MiB", 1<<20))
}

func exchangeKinds(t *trial) {
	direct, topic := t.exchange("direct"), t.exchange("topic")
	fanout, headers := t.exchange("fanout"), t.exchange("headers")
	receivers := map[string]*receiver{}
	for _, hint := range []string{"direct", "topic", "fanout", "headers", "none"} {
		receivers[hint] = t.queue(t.name(hint))
	}
	t.bind(receivers["direct"], "eu.order", direct)
	t.bind(receivers["topic"], "eu.*", topic)
	t.bind(receivers["fanout"], "any", fanout)
	t.must(t.w.Bind(t.ctx, receivers["headers"].queue, "", headers, amqp091.Table{"x-match": "all", "region": "eu"}))
	// these bindings must not match
	t.bind(receivers["none"], "us.order", direct)
	t.bind(receivers["none"], "us.*", topic)
	t.must(t.w.Bind(t.ctx, receivers["none"].queue, "", headers, amqp091.Table{"x-match": "all", "region": "us"}))

	outs := map[string][]outcome{}
	for hint, exchange := range map[string]string{"direct": direct, "topic": topic, "fanout": fanout, "headers": headers} {
		m := text("by " + hint)
		m.Headers = amqp091.Table{"region": "eu"}
		outs[hint] = t.mustPublish(job{exchange, "eu.order", t.short(), m})
	}
	for _, hint := range []string{"direct", "topic", "fanout", "headers", "none"} {
		t.exactly(receivers[hint], outs[hint])
	}
}

// compare publishes each message twice, plainly and through the Delayer, and checks that they
// arrive alike, except for what is documented to be added.
func (t *trial) compare(key string, msgs ...amqp091.Publishing) {
	t.Helper()
	plain, delayed := t.queue(t.name("plain")), t.queue(t.name("delayed"))
	plainly, through := t.exchange("direct"), t.exchange("direct")
	t.bind(plain, key, plainly)
	t.bind(delayed, key, through)

	var ids []string
	for _, m := range msgs {
		ids = append(ids, m.MessageId)
		t.must(t.w.Publish(t.ctx, plainly, key, m))
	}
	t.exactly(delayed, t.mustPublish(jobs(len(msgs), "", func(i int, _ string) job {
		return job{through, key, t.short(), msgs[i]}
	})...))
	if missing := plain.await(ids, t.h.Patience); len(missing) > 0 {
		t.failf("the world: not even without delay arrived %s", list(missing))
	}
	for _, m := range msgs {
		want, got := plain.of(m.MessageId)[0], delayed.of(m.MessageId)[0]
		if m.DeliveryMode == 0 { // documented: a Delayer makes it persistent
			want.DeliveryMode = amqp091.Persistent
		}
		for _, d := range t.differences(want, got) {
			t.errorf("message %s: %s", abridged(m.MessageId), d)
		}
	}
}

// differences lists how a delayed message differs from the plain one.
func (t *trial) differences(want, got Arrival) []string {
	var diffs []string
	diff := func(field string, want, got any) {
		if !reflect.DeepEqual(want, got) {
			diffs = append(diffs, fmt.Sprintf("%s arrived as %s, want %s", field, show(got), show(want)))
		}
	}
	diff("routing key", want.RoutingKey, got.RoutingKey)
	diff("body", string(want.Body), string(got.Body))
	wanted, had := reflect.ValueOf(republishing(want)), reflect.ValueOf(republishing(got))
	for i := range wanted.NumField() {
		if name := wanted.Type().Field(i).Name; name != "Headers" && name != "Body" {
			diff(name, wanted.Field(i).Interface(), had.Field(i).Interface())
		}
	}
	for name, value := range want.Headers {
		if _, there := got.Headers[name]; !there {
			diffs = append(diffs, fmt.Sprintf("header %s is missing, want %s", name, show(value)))
		} else {
			diff("header "+name, value, got.Headers[name])
		}
	}
	for name, value := range got.Headers {
		mayBeAdded := name == delayer.Header || name == "x-death" || strings.HasPrefix(name, "x-first-death-") ||
			strings.HasPrefix(name, "x-last-death-") || slices.Contains(t.h.Added, name)
		if _, there := want.Headers[name]; !there && !mayBeAdded {
			diffs = append(diffs, fmt.Sprintf("header %s was added: %s", name, show(value)))
		}
	}
	return diffs
}

func show(v any) string { return abridged(fmt.Sprintf("%T %#v", v, v)) }
