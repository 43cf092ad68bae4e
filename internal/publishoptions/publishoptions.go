// Package publishoptions turns the options of wagslane/go-rabbitmq into messages for a Delayer.
package publishoptions

import (
	"errors"
	"fmt"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
)

// Read applies the options to data. It returns the exchange and the message.
func Read(data []byte, options []func(*rabbitmq.PublishOptions)) (exchange string, msg amqp091.Publishing, err error) {
	var o rabbitmq.PublishOptions
	for _, option := range options {
		option(&o)
	}
	switch {
	case o.Mandatory:
		return "", msg, Invalid(o.Exchange, errors.New("Mandatory is set, and no return would reach a handler of NotifyReturn: "+
			"leave it out, because a message that cannot be routed is always an error"))
	case o.Immediate:
		return "", msg, Invalid(o.Exchange, errors.New("Immediate is set, which RabbitMQ does not implement: leave it out"))
	}
	return o.Exchange, amqp091.Publishing{
		Headers: table(o.Headers), ContentType: o.ContentType, ContentEncoding: o.ContentEncoding,
		DeliveryMode: o.DeliveryMode, Priority: o.Priority, CorrelationId: o.CorrelationID, ReplyTo: o.ReplyTo,
		Expiration: o.Expiration, MessageId: o.MessageID, Timestamp: o.Timestamp, Type: o.Type,
		UserId: o.UserID, AppId: o.AppID, Body: data,
	}, nil
}

// Invalid is the error for a message that cannot be published.
func Invalid(exchange string, cause error) error {
	return &delayer.Error{
		Op: "publish", Object: fmt.Sprintf("to exchange %q", exchange), Kind: delayer.ErrInvalid, Cause: cause,
	}
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

// Each calls publish for each key, in their order.
func Each(exchange string, keys []string, publish func(key string) error) error {
	if len(keys) == 0 {
		return Invalid(exchange, errors.New("there is no routing key, so nothing would be published"))
	}
	var failed KeysError
	for _, key := range keys {
		if err := publish(key); err != nil {
			failed.Errors = append(failed.Errors, err)
			continue
		}
		failed.Stored = append(failed.Stored, key)
	}
	switch {
	case len(failed.Errors) == 0:
		return nil
	case len(keys) == 1:
		return failed.Errors[0]
	}
	return &failed
}

// A KeysError is the error of a message for several routing keys. Each error names its key.
//
// While Stored is not empty, the error matches [delayer.ErrUnknown], and [delayer.SafeToRetry] is
// false: publishing for all keys again would deliver the message twice for these.
type KeysError struct {
	Stored []string // the keys for which the broker has confirmed the message
	Errors []error
}

// Error lists the errors, and the keys for which the message is stored.
func (e *KeysError) Error() string {
	texts := make([]string, len(e.Errors))
	for i, err := range e.Errors {
		texts[i] = err.Error()
	}
	stored := "for none of the keys"
	if len(e.Stored) > 0 {
		stored = fmt.Sprintf("for %q", e.Stored)
	}
	return fmt.Sprintf("%s (the message is stored %s)", strings.Join(texts, "; "), stored)
}

// Unwrap returns the errors, for errors.Is and errors.As.
func (e *KeysError) Unwrap() []error { return e.Errors }

// Is reports whether e is [delayer.ErrUnknown] because the message is stored for some keys.
func (e *KeysError) Is(target error) bool {
	return target == delayer.ErrUnknown && len(e.Stored) > 0
}
