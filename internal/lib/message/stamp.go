package message

import (
	"strconv"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Stamp is the header in which backend/controller writes when a message is due and where it goes: a
// text that begins with the user's routing key, if the message waits under another, or a -.
// Consumers never see it, except in messages of the unroutable queue.
const Stamp = "x-delayer-stamp"

// kept stands for the routing key of a message that has kept it.
const kept = "-"

// AppendUserKey begins a stamp.
func AppendUserKey(stamp []byte, key *string) []byte {
	if key == nil {
		return append(stamp, kept...)
	}
	return AppendKey(stamp, *key)
}

// CutUserKey reverses AppendUserKey. rest is empty if it cannot.
func CutUserKey(stamp string) (key *string, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(stamp, kept); ok {
		return nil, rest, true
	}
	text, rest, ok := CutKey(stamp)
	if !ok {
		return nil, "", false
	}
	return &text, rest, true
}

// AppendKey appends a routing key with its length before it, since it may hold any bytes.
func AppendKey(text []byte, key string) []byte {
	text = append(strconv.AppendInt(text, int64(len(key)), 10), ':')
	return append(text, key...)
}

// CutKey reverses AppendKey.
func CutKey(text string) (key, rest string, ok bool) {
	digits, rest, _ := strings.Cut(text, ":")
	size, err := strconv.Atoi(digits)
	if err != nil || size < 0 || size > maxShort || size > len(rest) {
		return "", "", false
	}
	return rest[:size], rest[size:], true
}

// UnderUserKey returns a delivery as it would be had it waited under the user's routing key.
func UnderUserKey(d *amqp091.Delivery) *amqp091.Delivery {
	stamp, _ := d.Headers[Stamp].(string)
	key, _, _ := CutUserKey(stamp)
	if key == nil {
		return d
	}
	under := *d
	under.RoutingKey = *key
	return &under
}
