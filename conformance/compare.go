package conformance

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// compare publishes each message twice, plainly and through the Delayer, and checks that a consumer
// cannot tell which is which, but by what is documented to be added.
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
	if missing := plain.await(ids, deadlineIn(t.h.Patience)); len(missing) > 0 {
		t.failf("the world: not even without delay arrived %s", list(missing))
	}
	for _, m := range msgs {
		want, got := plain.of(m.MessageId)[0], delayed.of(m.MessageId)[0]
		if m.DeliveryMode == 0 { // A delay is a promise, so an unset mode becomes persistent, as documented.
			want.DeliveryMode = amqp091.Persistent
		}
		for _, d := range t.differences(want, got) {
			t.errorf("message %s: %s", abridged(m.MessageId), d)
		}
	}
}

// differences tells what a consumer sees that is not what a plain publish would have shown.
func (t *trial) differences(want, got Arrival) []string {
	var diffs []string
	diff := func(field string, want, got any) {
		if !reflect.DeepEqual(want, got) {
			diffs = append(diffs, fmt.Sprintf("%s arrived as %s, want %s", field, show(got), show(want)))
		}
	}
	diff("routing key", want.RoutingKey, got.RoutingKey)
	diff("content type", want.ContentType, got.ContentType)
	diff("content encoding", want.ContentEncoding, got.ContentEncoding)
	diff("delivery mode", want.DeliveryMode, got.DeliveryMode)
	diff("priority", want.Priority, got.Priority)
	diff("correlation id", want.CorrelationId, got.CorrelationId)
	diff("reply-to", want.ReplyTo, got.ReplyTo)
	diff("expiration", want.Expiration, got.Expiration)
	diff("message id", want.MessageId, got.MessageId)
	diff("timestamp", want.Timestamp.Unix(), got.Timestamp.Unix())
	diff("type", want.Type, got.Type)
	diff("user id", want.UserId, got.UserId)
	diff("app id", want.AppId, got.AppId)
	diff("body", string(want.Body), string(got.Body))
	for name, value := range want.Headers {
		if _, there := got.Headers[name]; !there {
			diffs = append(diffs, fmt.Sprintf("header %s is missing, want %s", name, show(value)))
		} else {
			diff("header "+name, value, got.Headers[name])
		}
	}
	for name, value := range got.Headers {
		if _, there := want.Headers[name]; !there && !t.mayAdd(name) {
			diffs = append(diffs, fmt.Sprintf("header %s was added: %s", name, show(value)))
		}
	}
	return diffs
}

// mayAdd says whether a header may be there that the publisher did not give.
func (t *trial) mayAdd(name string) bool {
	return name == delayer.Header || name == "x-death" || strings.HasPrefix(name, "x-first-death-") ||
		strings.HasPrefix(name, "x-last-death-") || slices.Contains(t.h.Added, name)
}

// show prints a value with its type, and not all of it if it is long.
func show(v any) string {
	const readable = 200
	s := fmt.Sprintf("%T %#v", v, v)
	if len(s) > readable {
		return fmt.Sprintf("%s… (%d bytes)", s[:readable], len(s))
	}
	return s
}
