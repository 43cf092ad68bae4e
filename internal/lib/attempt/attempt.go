// Package attempt reads and writes [Header], in which a message carries what package retry knows of
// it: how often it failed, and what it was before it was sent again. It is pure.
package attempt

import (
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/xdelay"
)

// Header is the name of the header of a message that is retried or parked. Its value is a table.
const Header = "x-delayer-retry"

const (
	// MaxFailures is the most failures that a header counts: more are forged.
	MaxFailures = 1 << 20
	// maxHistory is how many failures are kept one by one, the last ones.
	maxHistory = 10
	// maxText bounds an error or a reason in bytes, so that ten of them fit into a frame with the
	// message's own headers.
	maxText = 500
)

// A State is what is known of a message that has failed.
type State struct {
	Queue    string    // where the failures happened: in another queue they count for nothing
	Failures int       // how many attempts have failed
	First    time.Time // when the first did
	History  []Failure // the last of them, the oldest first
	Reason   string    // why the message is parked, or ""
	Original Original
}

// A Failure is one attempt that failed.
type Failure struct {
	Attempt int
	At      time.Time
	Error   string
}

// Original is what the message had at its first attempt and cannot keep while it is sent again.
type Original struct {
	Exchange, Key      string
	Expiration, UserID string
	Priority           uint8
	DeliveryMode       uint8
	CC                 []any  // nil: none
	ID                 string // the value of [delayer.Header], or ""
}

// Fail returns the state after one more failure.
func (s State) Fail(now time.Time, err string) State {
	if s.Failures == 0 {
		s.First = now
	}
	s.Failures = min(s.Failures+1, MaxFailures)
	s.History = append(s.History[:len(s.History):len(s.History)], Failure{s.Failures, now, Bound(err)})
	s.History = s.History[max(0, len(s.History)-maxHistory):]
	return s
}

// LastError is that of the last failure, or "".
func (s State) LastError() string {
	if len(s.History) == 0 {
		return ""
	}
	return s.History[len(s.History)-1].Error
}

// Bound returns text as valid UTF-8 of at most 500 bytes.
func Bound(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 2*maxText)], "\uFFFD")
	if len(text) <= maxText {
		return text
	}
	end := maxText - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// First returns the state of a message that comes from queue for the first time.
func First(queue string, d *amqp091.Delivery) State {
	o := Original{
		Exchange: d.Exchange, Key: d.RoutingKey, Expiration: d.Expiration, UserID: d.UserId,
		Priority: d.Priority, DeliveryMode: d.DeliveryMode,
	}
	o.CC, _ = d.Headers["CC"].([]any)
	o.ID, _ = d.Headers[delayer.Header].(string)
	return State{Queue: queue, Original: o}
}

// Of returns the state of a message from queue. A header that is not as this package writes it is
// read as far as it makes sense; one of another queue is not read.
func Of(queue string, d *amqp091.Delivery, now time.Time) State {
	t, ok := d.Headers[Header].(amqp091.Table)
	if !ok || text(t, "queue") != queue {
		return First(queue, d)
	}
	return read(t, now)
}

// Parked returns the state of a message in a queue of parked ones; ok is false where it has none.
// Whoever can publish to that queue can write the header: see [Belongs].
func Parked(d *amqp091.Delivery, now time.Time) (s State, ok bool) {
	t, ok := d.Headers[Header].(amqp091.Table)
	if queue := text(t, "queue"); !ok || queue == "" || len(queue) > 255 { // no queue has a longer name
		return State{}, false
	}
	return read(t, now), true
}

// ParkedQueue is where package retry parks the messages of a queue, unless it is told otherwise.
func ParkedQueue(queue string) string { return queue + ".parked" }

// BackOf is the queue from which delayer serve parks messages into a queue <prefix>.serve.parked.<x>:
// <prefix>.serve.back.<x>. Of any other queue it is "".
func BackOf(parked string) string {
	if prefix, entry, is := strings.Cut(parked, ".serve.parked."); is {
		return prefix + ".serve.back." + entry
	}
	return ""
}

// EntryOf is the exchange that delayer serve serves with a queue <prefix>.serve.back.<x>: x. Of any
// other queue it is "".
func EntryOf(back string) string {
	_, entry, _ := strings.Cut(back, ".serve.back.")
	return entry
}

// Belongs reports whether parked is, by its name, the queue of what is parked of queue. Only then
// is a header believed that says a message was parked of queue. Otherwise a publisher could have an
// operator's retry send a message to any queue.
func Belongs(parked, queue string) bool {
	return parked == ParkedQueue(queue) || queue != "" && queue == BackOf(parked)
}

// Seen returns the delivery as a handler is to see it: as it was at the first attempt. d is not
// modified, nor are its headers by those that the handler sets or deletes.
func (s State) Seen(d amqp091.Delivery) amqp091.Delivery {
	d.Headers = maps.Clone(d.Headers)
	if _, again := d.Headers[Header]; !again {
		return d
	}
	o := s.Original
	d.Exchange, d.RoutingKey, d.Expiration = o.Exchange, o.Key, o.Expiration
	d.Priority, d.DeliveryMode = o.Priority, o.DeliveryMode
	delete(d.Headers, Header)
	delete(d.Headers, delayer.Header)
	delete(d.Headers, "x-delay") // of the plugin's
	delete(d.Headers, message.NativeDelay)
	message.ForgetDeaths(d.Headers)
	if o.CC != nil {
		d.Headers["CC"] = o.CC
	}
	if o.ID != "" {
		d.Headers[delayer.Header] = o.ID
	}
	if len(d.Headers) == 0 {
		d.Headers = nil // as the broker delivers none
	}
	return d
}

// Publishing returns the message to publish, with this state in its header. Priorities above
// maxPriority are lowered. What would send the message elsewhere, end it while it waits or make the
// broker refuse it is left to the header: CC, BCC, expiration and user-id.
func (s State) Publishing(d *amqp091.Delivery, maxPriority uint8) amqp091.Publishing {
	const anonymous = ""
	msg := message.Again(d, anonymous)
	delete(msg.Headers, "CC")
	delete(msg.Headers, "BCC")
	msg.Headers[Header] = s.table()
	msg.Expiration = ""
	msg.DeliveryMode, msg.Priority = min(d.DeliveryMode, amqp091.Persistent), min(d.Priority, maxPriority)
	return msg
}

func (s State) table() amqp091.Table {
	history := make([]any, len(s.History))
	for i, f := range s.History {
		history[i] = amqp091.Table{"attempt": int64(f.Attempt), "at": f.At.UnixMilli(), "error": f.Error}
	}
	o := s.Original
	t := amqp091.Table{
		"queue": s.Queue, "failures": int64(s.Failures), "history": history,
		"exchange": o.Exchange, "routing_key": o.Key,
		"priority": int64(o.Priority), "delivery_mode": int64(o.DeliveryMode),
	}
	if !s.First.IsZero() {
		t["first"] = s.First.UnixMilli()
	}
	for name, value := range map[string]string{
		"reason": Bound(s.Reason), "expiration": o.Expiration, "user_id": o.UserID, "id": o.ID,
	} {
		if value != "" {
			t[name] = value
		}
	}
	if o.CC != nil {
		t["cc"] = o.CC
	}
	return t
}

// read is the inverse of table. What is forged or broken is bounded: a failure lies in the past,
// and there are not more than MaxFailures.
func read(t amqp091.Table, now time.Time) State {
	s := State{
		Queue: text(t, "queue"), Reason: Bound(text(t, "reason")), First: instant(t, "first", now),
		Failures: int(number(t, "failures", 0, MaxFailures)),
		Original: Original{
			Exchange: short(t, "exchange"), Key: short(t, "routing_key"),
			Expiration: short(t, "expiration"), UserID: short(t, "user_id"), ID: text(t, "id"),
			Priority: uint8(number(t, "priority", 0, 255)), DeliveryMode: uint8(number(t, "delivery_mode", 0, 255)),
		},
	}
	s.Original.CC, _ = t["cc"].([]any)
	list, _ := t["history"].([]any)
	for _, item := range list[max(0, len(list)-maxHistory):] {
		if f, ok := item.(amqp091.Table); ok {
			s.History = append(s.History, Failure{
				int(number(f, "attempt", 0, MaxFailures)), instant(f, "at", now), Bound(text(f, "error")),
			})
		}
	}
	return s
}

func text(t amqp091.Table, name string) string {
	s, _ := t[name].(string)
	return s
}

// short is a text that fits where AMQP counts the bytes in one.
func short(t amqp091.Table, name string) string {
	s := text(t, name)
	return s[:min(len(s), 255)]
}

// number returns an integer of any width, not below low and not above high; low where it is none.
func number(t amqp091.Table, name string, low, high int64) int64 {
	n, _ := xdelay.Integer(t[name])
	return min(max(n, low), high)
}

// instant returns a time, not after now; the zero time where there is none.
func instant(t amqp091.Table, name string, now time.Time) time.Time {
	ms := number(t, name, 0, now.UnixMilli())
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
