package message

import amqp091 "github.com/rabbitmq/amqp091-go"

// counters are headers that a quorum queue adds when it delivers a message again.
var counters = [...]string{"x-delivery-count", "x-acquired-count"}

// Again is a received message, to be published as it is: with our header, and with x-death where it has that. It
// loses the user-id of another user than the given one, whom the broker lets no one else publish as.
func Again(d *amqp091.Delivery, user string) amqp091.Publishing {
	headers := make(amqp091.Table, len(d.Headers))
	for name, value := range d.Headers {
		headers[name] = value
	}
	for _, name := range counters {
		delete(headers, name)
	}
	if d.UserId != user {
		user = ""
	}
	return amqp091.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, UserId: user, AppId: d.AppId, Body: d.Body,
	}
}
