// Package message decides what may go on the wire and what a delayed message carries: it validates a
// publishing before it is sent, strips what earlier deliveries left in its headers, and adds ours. It is
// pure; nothing here talks to a broker.
package message

import (
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Reserved is the prefix of every routing key of ours. A user's routing, CC or BCC key that begins with
// it is refused, because all keys of a message are matched at every exchange that it passes.
const Reserved = "~d"

// maxShort is the longest name, key or short property: AMQP 0-9-1 counts them in one byte. amqp091-go
// would close the whole connection (501) over a longer one.
const maxShort = 255

// headroom is what the broker may add to the headers while a message waits: an x-death entry of about
// 200 bytes for each of at most 28 hops, and the x-first-death and x-last-death headers.
const headroom = 8 << 10

// Limits are the bounds that depend on the connection and the backend.
type Limits struct {
	FrameSize   int    // negotiated frame size in bytes; properties and headers share one frame
	User        string // the connection's user, the only user-id that the broker accepts
	MaxPriority uint8
}

// Validate checks everything about an address and a message that would make the broker close the
// channel or the connection, or that cannot be kept while the message waits. The error is the bare
// reason with its remedy.
func Validate(exchange, key string, msg *amqp091.Publishing, lim Limits) error {
	if err := validateAddress(exchange, key); err != nil {
		return err
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
	switch {
	case msg.Expiration != "":
		return fmt.Errorf("Expiration %.32q would run while the message waits: give the destination queue an x-message-ttl instead", msg.Expiration)
	case msg.DeliveryMode > amqp091.Persistent:
		return fmt.Errorf("DeliveryMode %d: AMQP has 1 (transient) and 2 (persistent)", msg.DeliveryMode)
	case msg.Priority > lim.MaxPriority:
		return fmt.Errorf("Priority %d is above %d, where this broker would let it hold up other waiting messages: use a lower one, or classic queues", msg.Priority, lim.MaxPriority)
	case msg.UserId != "" && msg.UserId != lim.User:
		return fmt.Errorf("UserId %q is not the connection's user %q: leave it empty", msg.UserId, lim.User)
	}
	if exchange == "" {
		for _, queue := range Copies(msg.Headers) {
			if err := validateName("the name of a queue in CC or BCC,", queue); err != nil {
				return err
			}
		}
	}
	return validateHeaders(msg.Headers, lim.FrameSize-propertiesSize(msg)-headroom)
}

func validateAddress(exchange, key string) error {
	switch {
	case len(exchange) > maxShort:
		return fmt.Errorf("the exchange's name has %d bytes, AMQP allows %d", len(exchange), maxShort)
	case len(key) > maxShort:
		return fmt.Errorf("the routing key has %d bytes, AMQP allows %d", len(key), maxShort)
	case exchange == "" && key == "":
		return fmt.Errorf("neither an exchange nor a queue: give an exchange, or a queue's name as the key")
	}
	if err := validateName("the exchange's name", exchange); err != nil {
		return err
	}
	if exchange == "" {
		if err := validateName("the queue's name", key); err != nil {
			return err
		}
	}
	return validateKey("the routing key", key)
}

// validateName refuses what the broker takes out of a name when something is bound (rabbit_channel, strip_cr_lf): the
// binding would be made to another queue or exchange.
func validateName(what, name string) error {
	if strings.ContainsAny(name, "\r\n") {
		return fmt.Errorf("%s %.64q has a line break, and the broker knows no such name", what, name)
	}
	return nil
}

func validateKey(what, key string) error {
	if strings.HasPrefix(key, Reserved) {
		return fmt.Errorf("%s %.64q begins with %q, which is reserved: rename it", what, key, Reserved)
	}
	return nil
}

// validateHeaders checks types, names and size, and the two headers that the broker reads itself.
func validateHeaders(headers amqp091.Table, room int) error {
	size, err := tableSize(headers)
	if err != nil {
		return err
	}
	if room > 0 && size > room {
		return fmt.Errorf("the headers take %d bytes, %d fit into one frame: put the data into the body", size, room)
	}
	for _, name := range [...]string{"CC", "BCC"} {
		if _, err := keyList(headers, name); err != nil {
			return err
		}
	}
	return nil
}

// keyList returns the routing keys in a CC or BCC header.
func keyList(headers amqp091.Table, name string) ([]any, error) {
	v, ok := headers[name]
	if !ok {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("header %s is a %T: the broker wants a []any of strings", name, v)
	}
	for _, item := range list {
		key, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("header %s holds a %T: the broker wants strings", name, item)
		}
		if len(key) > maxShort {
			return nil, fmt.Errorf("a key in header %s has %d bytes, AMQP allows %d", name, len(key), maxShort)
		}
		if err := validateKey("a key in header "+name+",", key); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Copies returns the keys in the CC and BCC headers of a valid message.
func Copies(headers amqp091.Table) []string {
	var keys []string
	for _, name := range [...]string{"CC", "BCC"} {
		list, _ := keyList(headers, name)
		for _, key := range list {
			keys = append(keys, key.(string))
		}
	}
	return keys
}

// Targets returns the exchange or queue that a message goes to whose name begins with a prefix, if there
// is one. At the default exchange CC and BCC name queues too.
func Targets(exchange, key string, headers amqp091.Table, prefix string) (string, bool) {
	names := []string{exchange}
	if exchange == "" {
		names = append(Copies(headers), key)
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			return name, true
		}
	}
	return "", false
}

// propertiesSize is an upper bound of the encoded basic properties without the headers.
func propertiesSize(msg *amqp091.Publishing) int {
	const fixed = 8 + 8 + 2 + 2 + 8 + 9 // frame, content header, flags, mode and priority, timestamp, lengths
	return fixed + len(msg.ContentType) + len(msg.ContentEncoding) + len(msg.CorrelationId) + len(msg.ReplyTo) +
		len(msg.MessageId) + len(msg.Type) + len(msg.UserId) + len(msg.AppId)
}

// maxDepth bounds nested tables and arrays, so that a header that contains itself is an error and not
// an endless recursion.
const maxDepth = 64

// tableSize returns the encoded size of a header table in bytes, as AMQP 0-9-1 with RabbitMQ's field
// types has it, or an error that names the entry that cannot be encoded.
func tableSize(t amqp091.Table) (int, error) { return tableSizeAt(t, 0) }

func tableSizeAt(t amqp091.Table, depth int) (int, error) {
	size := 4
	for name, value := range t {
		if len(name) > maxShort {
			return 0, fmt.Errorf("a header's name has %d bytes, AMQP allows %d", len(name), maxShort)
		}
		n, err := fieldSize(value, depth)
		if err != nil && depth == 0 {
			return 0, fmt.Errorf("header %.64q: %w", name, err)
		}
		if err != nil {
			return 0, err
		}
		size += 1 + len(name) + n
	}
	return size, nil
}

func fieldSize(value any, depth int) (int, error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("nested more than %d deep: flatten it", maxDepth)
	}
	switch v := value.(type) {
	case nil:
		return 1, nil
	case bool, byte, int8:
		return 2, nil
	case int16, uint16:
		return 3, nil
	case int32, uint32, float32:
		return 5, nil
	case int, int64, float64, time.Time:
		return 9, nil
	case amqp091.Decimal:
		return 6, nil
	case string:
		return 5 + len(v), nil
	case []byte:
		return 5 + len(v), nil
	case []any:
		size := 5
		for _, item := range v {
			n, err := fieldSize(item, depth+1)
			if err != nil {
				return 0, err
			}
			size += n
		}
		return size, nil
	case amqp091.Table:
		n, err := tableSizeAt(v, depth+1)
		return n + 1, err
	default:
		return 0, fmt.Errorf("AMQP has no type for a %T: use a string, []byte, bool, a sized integer, float, time.Time, amqp091.Decimal, []any or amqp091.Table", value)
	}
}
