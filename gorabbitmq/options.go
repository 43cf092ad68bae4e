package gorabbitmq

import (
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"
)

// read applies the options to data. It returns the exchange and the message.
func read(data []byte, options []func(*rabbitmq.PublishOptions)) (exchange string, msg amqp091.Publishing, err error) {
	var o rabbitmq.PublishOptions
	for _, option := range options {
		option(&o)
	}
	switch {
	case o.Mandatory:
		return "", msg, invalid(o.Exchange, errors.New("Mandatory is set, and no return would reach a handler of NotifyReturn: "+
			"leave it out, because a message that cannot be routed is always an error"))
	case o.Immediate:
		return "", msg, invalid(o.Exchange, errors.New("Immediate is set, which RabbitMQ does not implement: leave it out"))
	}
	return o.Exchange, amqp091.Publishing{
		Headers: table(o.Headers), ContentType: o.ContentType, ContentEncoding: o.ContentEncoding,
		DeliveryMode: o.DeliveryMode, Priority: o.Priority, CorrelationId: o.CorrelationID, ReplyTo: o.ReplyTo,
		Expiration: o.Expiration, MessageId: o.MessageID, Timestamp: o.Timestamp, Type: o.Type,
		UserId: o.UserID, AppId: o.AppID, Body: data,
	}, nil
}

// table copies a table. amqp091-go does not know go-rabbitmq's type within another table.
func table(t rabbitmq.Table) amqp091.Table {
	if t == nil {
		return nil
	}
	own := make(amqp091.Table, len(t))
	for name, value := range t {
		own[name] = field(value)
	}
	return own
}

func field(value any) any {
	switch v := value.(type) {
	case rabbitmq.Table:
		return table(v)
	case amqp091.Table:
		return table(rabbitmq.Table(v))
	case []any:
		own := make([]any, len(v))
		for i, item := range v {
			own[i] = field(item)
		}
		return own
	}
	return value
}
