package message

import (
	"maps"
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

// forgetDeliveries removes the headers in which quorum queues count deliveries, and ours.
func forgetDeliveries(headers amqp091.Table) {
	for _, name := range [...]string{"x-delivery-count", "x-acquired-count", Came} {
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
	size, err := tableSize(msg.Headers)
	return err == nil && size+propertiesSize(msg) <= frame
}
