package migrate_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/migration/evacuate"
)

// dueHeader says when a message may arrive at the earliest, in ms.
const dueHeader = "due"

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

// A ledger holds what was confirmed, and what arrived.
type ledger struct {
	user string

	mu       sync.Mutex
	sent     map[string]int64 // the last due time of each message
	came     map[string]int
	moved    map[string]bool // through an evacuation
	early    int
	changed  int
	strange  string        // the first of changed
	latest   time.Duration // behind its due time
	refused  map[string]int
	gap      time.Duration // in which a publisher could not publish, at most
	arriving chan struct{} // has a value after an arrival
}

func newLedger(user string) *ledger {
	return &ledger{user: user, sent: map[string]int64{}, came: map[string]int{}, moved: map[string]bool{}, refused: map[string]int{}, arriving: make(chan struct{}, 1)}
}

// confirmed notes a message that a publisher was told is safe.
func (l *ledger) confirmed(id string, due int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[id] = due
}

// failed notes a publish that failed, in a publisher that has tried for so long.
func (l *ledger) failed(err error, tried time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[err.Error()]++
	l.gap = max(l.gap, tried)
}

// arrived notes a message.
func (l *ledger) arrived(d amqp091.Delivery) {
	now := time.Now().UnixMilli()
	due, _ := d.Headers[dueHeader].(int64)
	letter, ok := parseLetter(d.MessageId)
	got, want := seen(d, "x-delay", dueHeader, evacuate.RowHeader), letter.delivery(l.user)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came[d.MessageId]++
	if d.Headers[evacuate.RowHeader] != nil {
		l.moved[d.MessageId] = true
	}
	if now < due {
		l.early++
	}
	l.latest = max(l.latest, time.Duration(now-due)*time.Millisecond)
	if !ok || !reflect.DeepEqual(got, want) {
		if l.changed++; l.changed == 1 {
			l.strange = fmt.Sprintf("got  %+v\nwant %+v", got, want)
		}
	}
	select {
	case l.arriving <- struct{}{}:
	default:
	}
}

// An account is what became of the messages.
type account struct{ sent, delivered, twice, lost int }

// account counts, without what is due in days.
func (l *ledger) account() (a account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.sent {
		if strings.HasPrefix(id, days) {
			continue
		}
		a.sent++
		switch n := l.came[id]; n {
		case 0:
			a.lost++
		case 1:
			a.delivered++
		default:
			a.delivered++
			a.twice++
		}
	}
	return a
}

// missing names some messages that have not come.
func (l *ledger) missing() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const some = 5
	for id, due := range l.sent {
		if l.came[id] == 0 && !strings.HasPrefix(id, days) && len(ids) < some {
			ids = append(ids, fmt.Sprintf("%s due at %v", id, time.UnixMilli(due).Format(time.StampMilli)))
		}
	}
	return ids
}
