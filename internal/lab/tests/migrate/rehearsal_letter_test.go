package migrate_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A letter is one message of a rehearsal. Everything about it follows from its fields, so that
// whoever receives it knows how it was.
type letter struct {
	series string // pending, days or live
	kind   string // of exchange
	number int
}

func (l letter) id() string { return fmt.Sprintf("%s/%s/%d", l.series, l.kind, l.number) }

// parseLetter is the opposite of id.
func parseLetter(id string) (l letter, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return l, false
	}
	l.series, l.kind = parts[0], parts[1]
	_, err := fmt.Sscan(parts[2], &l.number)
	return l, err == nil
}

// keys is how many routing keys a direct exchange has.
const keys = 7

func (l letter) key() string { return fmt.Sprint("order.", l.number%keys) }

// message has every property, but for each tenth, which is almost bare.
func (l letter) message(user string) amqp091.Publishing {
	msg := amqp091.Publishing{
		MessageId: l.id(), DeliveryMode: amqp091.Persistent,
		Headers: amqp091.Table{"route": "here", "n": int64(l.number)},
	}
	if l.number%10 == 0 {
		return msg
	}
	msg.ContentType, msg.ContentEncoding, msg.Priority, msg.CorrelationId = "text/plain", "identity", uint8(l.number%5), "c"+l.id()
	msg.ReplyTo, msg.Timestamp, msg.Type, msg.AppId, msg.UserId = "reply", time.Unix(1_600_000_000+int64(l.number), 0), "type", "app", user
	msg.Body = []byte(strings.Repeat("ä\x00", l.number%500))
	maps.Copy(msg.Headers, amqp091.Table{
		"CC": []any{"nobody"}, "text": "ü", "int": int32(-5), "yes": true, "bytes": []byte{0, 1}, "void": nil,
		"list": []any{"x", int64(1)}, "table": amqp091.Table{"k": "v", "deep": amqp091.Table{"l": []any{int32(1), false}}},
	})
	return msg
}

// delivery is what a consumer must see of it.
func (l letter) delivery(user string) amqp091.Delivery {
	m := l.message(user)
	d := amqp091.Delivery{
		Headers: m.Headers, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, DeliveryMode: m.DeliveryMode,
		Priority: m.Priority, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo, MessageId: m.MessageId, Timestamp: m.Timestamp,
		Type: m.Type, UserId: m.UserId, AppId: m.AppId, RoutingKey: l.key(), Body: m.Body,
	}
	if d.Body == nil {
		d.Body = []byte{}
	}
	return d
}

// mishaps are what befell publishers and messages beside the account. Its methods are safe for
// concurrent use.
type mishaps struct {
	mu      sync.Mutex
	moved   map[string]bool // through an evacuation, and have arrived
	changed int
	strange string // the first of changed
	refused map[string]int
	gap     time.Duration // in which a publisher could not publish, at most
}

// ask notes a message that is about to be published. A broker counts in milliseconds.
func (r *rehearsal) ask(l letter, delay time.Duration) {
	now := r.account.At(time.Now().Truncate(time.Millisecond))
	r.account.Ask(account.Course[string]{ID: l.id(), Asked: now, Delay: delay, Aside: l.series == days})
}

// failed notes a publish that failed, in a publisher that has tried for so long.
func (r *rehearsal) failed(err error, tried time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[err.Error()]++
	r.gap = max(r.gap, tried)
}

// arrived notes a message.
func (r *rehearsal) arrived(d amqp091.Delivery) {
	r.account.Arrive(d.MessageId, r.account.Now())
	r.compare(d)
}

// compare notes a message that is not as it was published.
func (r *rehearsal) compare(d amqp091.Delivery) {
	letter, ok := parseLetter(d.MessageId)
	got, want := seen(d, "x-delay", evacuate.RowHeader), letter.delivery(r.user)
	if d.Headers[evacuate.RowHeader] != nil { // a Delayer has published it to an exchange that may be one of serve
		delete(got.Headers, message.Hops)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if letter.series != days && d.Headers[evacuate.RowHeader] != nil {
		r.moved[d.MessageId] = true
	}
	if !ok || !reflect.DeepEqual(got, want) {
		if r.changed++; r.changed == 1 {
			r.strange = fmt.Sprintf("got  %+v\nwant %+v", got, want)
		}
	}
}

// described says of some messages when they were due.
func (r *rehearsal) described(messages []account.Course[string]) (list []string) {
	const some = 5
	for _, m := range messages[:min(some, len(messages))] {
		list = append(list, fmt.Sprintf("%s due at %s", m.ID, r.account.Time(m.Due()).Format(time.StampMilli)))
	}
	return list
}
