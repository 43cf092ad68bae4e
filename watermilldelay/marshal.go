package watermilldelay

import (
	"maps"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// uuidHeader is watermill-amqp's DefaultMessageUUIDHeaderKey.
const uuidHeader = "_watermill_message_uuid"

// Marshal converts a message as watermill-amqp's DefaultMarshaler does: the metadata and the UUID
// become headers, and the message is persistent. The UUID also becomes the MessageId, by which
// package once recognises a message that is published again. The error is always nil.
func Marshal(msg *message.Message) (amqp091.Publishing, error) {
	headers := make(amqp091.Table, len(msg.Metadata)+1)
	for key, value := range msg.Metadata {
		headers[key] = value
	}
	headers[uuidHeader] = msg.UUID
	return amqp091.Publishing{
		MessageId: msg.UUID, DeliveryMode: amqp091.Persistent, Headers: headers, Body: msg.Payload,
	}, nil
}

// StringHeaders returns a delivery without the headers that are not strings. Use it as
// PreprocessDelivery of watermill-amqp's DefaultMarshaler, which refuses them.
func StringHeaders(d amqp091.Delivery) amqp091.Delivery {
	d.Headers = maps.Clone(d.Headers)
	maps.DeleteFunc(d.Headers, func(_ string, value any) bool {
		_, is := value.(string)
		return !is
	})
	return d
}
