// Package message validates a publishing before it is sent, removes the headers of earlier
// deliveries, and adds ours. It is pure: nothing here talks to a broker.
package message

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Reserved is the prefix of all our routing keys. A user's routing, CC or BCC key that begins with
// it is refused, because all keys of a message are matched at every exchange.
const Reserved = "~d"

// maxShort is the longest name, key or short property in bytes: AMQP 0-9-1 counts them in one byte.
// amqp091-go closes the connection (501) because of a longer one.
const maxShort = 255

// maxPrefix, in bytes, leaves room for the longest suffix of an object's name.
const maxPrefix = 128

// directReplyTo is a queue of one channel. The broker closes the channel of a publisher that names
// it without consuming from it.
const directReplyTo = "amq.rabbitmq.reply-to"

// NativeDelay is the header by which RabbitMQ 4.4 hides a message in a quorum queue until a time. It
// would do so in waiting queues, too, and a time 300 years away crashes a queue for good. So a user's
// message may not have it, whatever the broker. Backend native writes it, and it then stays in the
// message, where it does no harm once the time has passed. Such a message may be published again:
// Seal removes the header.
const NativeDelay = "x-opt-delivery-time"

// ProvedKey begins the keys that lead to the waiting queues of backend native.
const ProvedKey = Reserved + ":proved:"

// spent reports whether the time in NativeDelay has passed. The broker's own clock says so: the
// message was dead-lettered after it.
func spent(headers amqp091.Table) bool {
	at, is := headers[NativeDelay].(int64)
	return is && at/1000 <= LastDeath(headers).Unix()
}

// ValidatePrefix checks the prefix of a Delayer's exchanges and queues.
func ValidatePrefix(prefix string) error {
	switch {
	case prefix == "":
		return errors.New("empty")
	case len(prefix) > maxPrefix:
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(prefix), maxPrefix)
	case strings.HasPrefix(prefix, "amq."):
		return errors.New(`names that begin with "amq." belong to the broker`)
	case !utf8.ValidString(prefix):
		return fmt.Errorf("%q is not UTF-8", prefix)
	case strings.ContainsFunc(prefix, unicode.IsControl):
		return fmt.Errorf("%q contains a control character", prefix)
	}
	return nil
}

// Validate refuses an address or a message because of which the broker would close the channel or
// the connection, and properties that cannot be kept while the message waits. The error is the bare
// cause with its remedy.
func Validate(exchange, key string, msg *amqp091.Publishing, lim Limits) error {
	switch {
	case len(exchange) > maxShort:
		return fmt.Errorf("the exchange's name has %d bytes, AMQP allows %d", len(exchange), maxShort)
	case len(key) > maxShort:
		return fmt.Errorf("the routing key has %d bytes, AMQP allows %d", len(key), maxShort)
	case exchange == "" && key == "":
		return errors.New("neither an exchange nor a queue: give an exchange, or a queue's name as the key")
	case strings.HasPrefix(key, Reserved):
		return fmt.Errorf("the routing key %.64q begins with %q, which is reserved: rename it", key, Reserved)
	}
	if err := validateName("the exchange's name", exchange); err != nil {
		return err
	}
	if exchange == "" {
		if err := validateName("the queue's name", key); err != nil {
			return err
		}
	}
	for _, p := range [...]struct{ name, value string }{
		{"ContentType", msg.ContentType}, {"ContentEncoding", msg.ContentEncoding},
		{"CorrelationId", msg.CorrelationId}, {"ReplyTo", msg.ReplyTo}, {"MessageId", msg.MessageId},
		{"Type", msg.Type}, {"UserId", msg.UserId}, {"AppId", msg.AppId},
	} {
		if len(p.value) > maxShort {
			return fmt.Errorf("%s has %d bytes, AMQP allows %d", p.name, len(p.value), maxShort)
		}
	}
	_, native := msg.Headers[NativeDelay]
	native = native && !spent(msg.Headers)
	switch {
	case msg.Expiration != "":
		return fmt.Errorf("Expiration %.32q would count while the message waits: give the destination queue an x-message-ttl instead", msg.Expiration)
	case !msg.Timestamp.IsZero() && msg.Timestamp.Unix() < 0:
		return fmt.Errorf("Timestamp %v is before 1970, which AMQP cannot express", msg.Timestamp)
	case msg.DeliveryMode > amqp091.Persistent:
		return fmt.Errorf("DeliveryMode %d: AMQP has 1 (transient) and 2 (persistent)", msg.DeliveryMode)
	case msg.Priority > lim.MaxPriority:
		return fmt.Errorf("Priority %d is above %d, with which it would block other waiting messages on this broker: use a lower one, or classic queues", msg.Priority, lim.MaxPriority)
	case msg.ReplyTo == directReplyTo:
		return fmt.Errorf("ReplyTo %q exists only on the channel of its publisher: name a queue", msg.ReplyTo)
	case native:
		return fmt.Errorf("the header %s would delay the message in each queue on its way, from RabbitMQ 4.4 on: remove it", NativeDelay)
	case msg.UserId != "" && msg.UserId != lim.User:
		return fmt.Errorf("UserId %q is not the connection's user %q: leave it empty", msg.UserId, lim.User)
	}
	for _, name := range [...]string{"CC", "BCC"} {
		value, there := msg.Headers[name]
		if !there {
			continue
		}
		keys, ok := value.([]any)
		if !ok {
			return fmt.Errorf("header %s is a %T: the broker wants a []any of strings", name, value)
		}
		for _, item := range keys {
			key, ok := item.(string)
			switch {
			case !ok:
				return fmt.Errorf("header %s holds a %T: the broker wants strings", name, item)
			case len(key) > maxShort:
				return fmt.Errorf("a key in header %s has %d bytes, AMQP allows %d", name, len(key), maxShort)
			case strings.HasPrefix(key, Reserved):
				return fmt.Errorf("a key in header %s, %.64q begins with %q, which is reserved: rename it", name, key, Reserved)
			}
			if exchange == "" {
				if err := validateName("the name of a queue in CC or BCC,", key); err != nil {
					return err
				}
			}
		}
	}
	size, err := lim.frameSize(exchange, key, msg)
	if err != nil || lim.FrameSize <= 0 || size <= lim.FrameSize {
		return err
	}
	growth := ""
	if lim.Hops > 0 {
		growth = fmt.Sprintf(" after %d hops, each of which adds the routing key and CC", lim.Hops)
	}
	return fmt.Errorf("properties and headers take %d bytes%s, but must fit into one frame of %d: put the data into the body, and bind queues to an exchange instead of listing keys", size, growth, lim.FrameSize)
}

// validateName refuses names that cannot be bound. The broker removes line breaks from a name in a
// binding (rabbit_channel, strip_cr_lf), and closes the connection because of a name that is not
// UTF-8.
func validateName(what, name string) error {
	switch {
	case strings.ContainsAny(name, "\r\n"):
		return fmt.Errorf("%s %.64q has a line break, and the broker knows no such name", what, name)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s %.64q is not UTF-8, and the broker knows no such name", what, name)
	}
	return nil
}

// Copies returns the keys in the CC and BCC headers of a message.
func Copies(headers amqp091.Table) []string {
	var keys []string
	for _, name := range [...]string{"CC", "BCC"} {
		list, _ := headers[name].([]any)
		for _, item := range list {
			if key, ok := item.(string); ok {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Owns reports whether a name is that of an object of the Delayer with this prefix. By the queues
// that it names serve.back, messages come back to delayer serve: they may go there.
func Owns(prefix, name string) bool {
	rest, is := strings.CutPrefix(name, prefix)
	return is && strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, ".serve.back.")
}

// Targets reports whether the Delayer with this prefix owns a destination of a message. At the
// default exchange CC and BCC name queues too.
func Targets(exchange, key string, headers amqp091.Table, prefix string) bool {
	if exchange != "" {
		return Owns(prefix, exchange)
	}
	return Owns(prefix, key) || slices.ContainsFunc(Copies(headers), func(queue string) bool { return Owns(prefix, queue) })
}

// RoundUp returns the shortest delay of a backend that is at least wait.
func RoundUp(wait time.Duration, l delayer.Limits) (time.Duration, error) {
	if wait == 0 {
		return 0, nil
	}
	for _, tier := range l.Tiers {
		if wait <= tier {
			return tier, nil
		}
	}
	if rest := wait % max(l.Resolution, 1); rest > 0 && wait <= l.Max {
		wait += l.Resolution - rest
	}
	if l.Tiers != nil || wait > l.Max {
		return 0, fmt.Errorf("%v is longer than %v, the longest delay of the backend", wait, l.Max)
	}
	return wait, nil
}
