package message

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Limits are the bounds that depend on the connection and the backend. The properties and headers
// of a message share one frame, and the broker adds to them while the message waits. A message that
// no longer fits closes the connection of every consumer that receives it.
type Limits struct {
	FrameSize   int    // negotiated frame size in bytes; 0: unlimited
	User        string // the connection's user, the only user-id that the broker accepts
	MaxPriority uint8
	Growth
}

// Growth says what the broker and the backend add to a message while it waits.
type Growth struct {
	Hops       int  // most queues where a message waits: each adds an entry to x-death
	Keys       int  // most routing keys that the backend adds to BCC, beside one a destination
	KeySize    int  // bytes of the longest of these keys, before it is padded to the user's words
	NameSize   int  // bytes of the longest name of a queue or exchange where a message waits
	HeaderSize int  // bytes of further headers that the backend adds
	Carried    bool // a header carries the keys of the destinations and the user's BCC, not BCC
}

// frameSize returns the largest size, in bytes, that the frame with the message's properties can
// reach: when it is published, or when it is delivered after the most hops.
func (l Limits) frameSize(exchange, key string, msg *amqp091.Publishing) (int, error) {
	headers, err := tableSize(msg.Headers, 0)
	if err != nil {
		return 0, err
	}
	for _, name := range stripped {
		headers -= entrySize(msg.Headers, name)
	}
	const id, integer, spaces = 3 * LongestID, 20, 3 // percent-encoded; a number with its sign
	envelope := field(delayer.Header, longString+id+2*integer+spaces+len(exchange))
	size := propertiesSize(msg) + headers + envelope + l.HeaderSize

	// The backend adds keys to BCC, or a header carries them.
	padding := max(strings.Count(key, "."), emptyKeyPadding)
	destinations := 1
	if exchange == "" {
		destinations += len(Copies(msg.Headers))
	}
	keys := destinations * (longString + destinationKey + padding)
	bcc := entrySize(msg.Headers, "BCC")
	if l.Carried {
		size += keys + bcc
	}
	delivered := size - bcc
	if l.Keys > 0 {
		size += shortString + len("BCC") + longString + keys + l.Keys*(longString+l.KeySize+padding)
	}

	// The broker adds to x-death in each hop, and counts deliveries.
	delivered += field("x-delivery-count", number) + field("x-acquired-count", number)
	if l.Hops > 0 {
		cc := max(0, entrySize(msg.Headers, "CC")-field("CC", longString))
		reason, name := longString+len("expired"), longString+l.NameSize
		entry := longString + field("count", number) + field("time", number) + field("reason", reason) +
			field("queue", name) + field("exchange", name) + field("routing-keys", 2*longString) + len(key) + cc
		delivered += field("x-death", longString) + l.Hops*entry
		for _, which := range [...]string{"x-first-death-", "x-last-death-"} {
			delivered += field(which+"reason", reason) + field(which+"queue", name) + field(which+"exchange", name)
		}
	}
	return max(size, delivered), nil
}

// Bytes that AMQP and RabbitMQ add to a value.
const (
	shortString     = 1 // its length
	longString      = 5 // its type and length; tables and arrays too
	number          = 9 // a type and 64 bits
	destinationKey  = len(Reserved) + len(":=") + 22
	emptyKeyPadding = 15 // an empty routing key gets as many words as no pattern has (see Words)
)

// field is the size of a table's entry with a value of so many bytes.
func field(name string, value int) int { return shortString + len(name) + value }

// propertiesSize is an upper bound of the frame that holds the properties without the headers.
func propertiesSize(msg *amqp091.Publishing) int {
	const frame, content = 8, 14 // with its end byte; class, weight, body size and flags
	const fixed = frame + content + 1 + 1 + 8 + 9*shortString
	return fixed + len(msg.ContentType) + len(msg.ContentEncoding) + len(msg.CorrelationId) + len(msg.ReplyTo) +
		len(msg.MessageId) + len(msg.Type) + len(msg.UserId) + len(msg.AppId)
}

const (
	// maxDepth bounds nested tables and arrays: amqp091-go v1.16.0 reads no more, and closes the
	// connection of a consumer that gets more.
	maxDepth = 32
	// maxEntries bounds one table or array, likewise. amqp091-go reads 8,192; some headers are ours
	// and the broker's.
	maxEntries = 8192 - 64
)

func entrySize(t amqp091.Table, name string) int {
	value, ok := t[name]
	if !ok {
		return 0
	}
	size, _ := fieldSize(value, 0)
	return field(name, size)
}

// tableSize returns the encoded size of a table in bytes, with RabbitMQ's field types. Its error
// names the header that cannot be sent.
func tableSize(t amqp091.Table, depth int) (int, error) {
	if err := container(len(t), depth); err != nil {
		return 0, err
	}
	size := longString - 1
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
		size += field(name, n)
	}
	return size, nil
}

// container refuses a table or array that consumers cannot read.
func container(entries, depth int) error {
	switch {
	case depth > maxDepth:
		return fmt.Errorf("nested more than %d deep: flatten it", maxDepth)
	case entries > maxEntries:
		return fmt.Errorf("%d entries in one table or array, %d can be read: put the data into the body", entries, maxEntries)
	}
	return nil
}

func fieldSize(value any, depth int) (int, error) {
	switch v := value.(type) {
	case nil:
		return 1, nil
	case bool, byte, int8:
		return 2, nil
	case int16, uint16:
		return 3, nil
	case int32, uint32:
		return 5, nil
	case float32:
		return 5, finite(float64(v))
	case float64:
		return number, finite(v)
	case int, int64, time.Time:
		return number, nil
	case amqp091.Decimal:
		return 6, nil
	case string:
		return longString + len(v), nil
	case []byte:
		return longString + len(v), nil
	case []any:
		if err := container(len(v), depth+1); err != nil {
			return 0, err
		}
		size := longString
		for _, item := range v {
			n, err := fieldSize(item, depth+1)
			if err != nil {
				return 0, err
			}
			size += n
		}
		return size, nil
	case amqp091.Table:
		n, err := tableSize(v, depth+1)
		return n + 1, err
	default:
		return 0, fmt.Errorf("AMQP has no type for a %T: use a string, []byte, bool, a sized integer, float, time.Time, amqp091.Decimal, []any or amqp091.Table", value)
	}
}

// finite: RabbitMQ cannot read another float, and closes the connection (3.10, 4.0, 4.3).
func finite(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return errors.New("NaN and infinities cannot be sent: leave the header out, or use a string")
	}
	return nil
}
