package message

import (
	"maps"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Again returns a received message, ready to be published unchanged: with our header, and with its
// x-death if it has one. A user-id other than user is removed: the broker would refuse it.
func Again(d *amqp091.Delivery, user string) amqp091.Publishing {
	headers := make(amqp091.Table, len(d.Headers))
	maps.Copy(headers, d.Headers)
	forgetDeliveries(headers)
	return received(d, user, headers)
}

// SealAgain is Seal for a received message.
func SealAgain(d *amqp091.Delivery, user string, e Envelope, more amqp091.Table, keys ...any) amqp091.Publishing {
	sealed := Seal(received(d, user, d.Headers), e, more, keys...)
	forgetDeliveries(sealed.Headers)
	return sealed
}

// forgetDeliveries removes the headers in which quorum queues count deliveries, the time until which
// one has hidden the message, and ours.
func forgetDeliveries(headers amqp091.Table) {
	for _, name := range [...]string{"x-delivery-count", "x-acquired-count", NativeDelay, Came} {
		delete(headers, name)
	}
}

func received(d *amqp091.Delivery, user string, headers amqp091.Table) amqp091.Publishing {
	if d.UserId != user {
		user = ""
	}
	return amqp091.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, UserId: user, AppId: d.AppId, Body: d.Body,
	}
}

// Kept returns a received message as it goes to the unroutable queue. Brokers from 4.0 on drop an
// x-death that a client publishes. So the remaining delay, and since when it counts, are written
// into our headers.
func Kept(d *amqp091.Delivery, user string, e Envelope, remaining time.Duration) amqp091.Publishing {
	msg := Again(d, user)
	came := LastDeath(d.Headers)
	if came.IsZero() {
		came = time.Now()
	}
	ForgetDeaths(msg.Headers)
	e.Delay = remaining
	msg.Headers[delayer.Header], msg.Headers[Came] = e.String(), came
	return msg
}

// Fits reports whether the headers and properties of a message fit into a frame of so many bytes.
func Fits(msg *amqp091.Publishing, frame int) bool {
	size, err := tableSize(msg.Headers, 0)
	return err == nil && size+propertiesSize(msg) <= frame
}

// A Death is an entry of x-death: how a message left a queue without a consumer's acknowledgement.
type Death struct {
	Queue      string
	Exchange   string    // to which it was published, before it came to the queue
	Reason     string    // such as "expired"
	Time       time.Time // in whole seconds, by the broker's clock
	Expiration string    // its own, which the broker has removed
}

// Deaths returns the entries of x-death, the newest first. There is one for each queue and reason.
// A field, or an entry, that a client has forged is zero.
func Deaths(headers amqp091.Table) []Death {
	entries, _ := headers["x-death"].([]any)
	deaths := make([]Death, len(entries))
	for i, entry := range entries {
		table, _ := entry.(amqp091.Table)
		d := &deaths[i]
		d.Queue, _ = table["queue"].(string)
		d.Exchange, _ = table["exchange"].(string)
		d.Reason, _ = table["reason"].(string)
		d.Time, _ = table["time"].(time.Time)
		d.Expiration, _ = table["original-expiration"].(string)
	}
	return deaths
}

// LastDeath returns the time of the latest entry of x-death, zero if there is none.
func LastDeath(headers amqp091.Table) (last time.Time) {
	for _, d := range Deaths(headers) {
		if d.Time.After(last) {
			last = d.Time
		}
	}
	return last
}

// ForgetDeathsOf removes from x-death what queues of a prefix have written.
func ForgetDeathsOf(headers amqp091.Table, prefix string) {
	entries, _ := headers["x-death"].([]any)
	var others []any
	for i, d := range Deaths(headers) {
		if !Owns(prefix, d.Queue) {
			others = append(others, entries[i])
		}
	}
	if len(others) == len(entries) {
		return
	}
	ForgetDeaths(headers)
	if len(others) > 0 {
		headers["x-death"] = others
	}
}

// ForgetDeaths removes x-death, and what else the broker writes when a message leaves a queue.
func ForgetDeaths(headers amqp091.Table) {
	maps.DeleteFunc(headers, func(name string, _ any) bool {
		return name == "x-death" || strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
	})
}
