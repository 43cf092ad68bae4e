package delayer

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Header is the name of the header that every delayed message carries to its consumer. Its value is
// one string, "<id> <due ms> <delay ms> <exchange>". [ParseHeader] reads it into an [Envelope]. The
// id is percent-encoded, if it is a [Message].ID with other bytes than letters, digits and
// "$&+:=@-_.~".
const Header = "x-delayer"

// An Envelope is the content of [Header]: what a consumer can know of a message's delay. The rest
// of the destination is the delivery's own RoutingKey, which is the publisher's with every backend.
type Envelope struct {
	// ID is the [Message].ID that Schedule was given. Otherwise it is unique to one call: copies of
	// a message carry the same id, and a publisher that publishes a message again gives it another.
	ID string

	// Due is the time of Publish plus its delay, by the publisher's clock, in whole milliseconds.
	// Rounding to tiers or to a resolution is not in it. Of a message with a Due it is that, which
	// is by the broker's clock.
	Due time.Time

	// Delay is the delay that was given to Publish, rounded up to a millisecond; of a message with
	// a Due what was left until then. It is less, what then remained, where a Delayer has sent a
	// misrouted message on; and 0 where messages were moved out of the plugin's table, which does
	// not tell.
	Delay time.Duration

	// Exchange is the destination exchange, which is empty for the default exchange.
	Exchange string
}

// ParseHeader reads [Header] from the headers of a delivery. The error matches [ErrNotFound] if
// there is none, and [ErrInvalid] if its value is not what a Delayer writes.
func ParseHeader(headers amqp091.Table) (Envelope, error) {
	value, there := headers[Header]
	if !there {
		return Envelope{}, headerError(ErrNotFound, nil, "no Delayer has published the message")
	}
	text, ok := value.(string)
	if !ok {
		return Envelope{}, headerError(ErrInvalid, fmt.Errorf("a %T, want a string", value), "")
	}
	e, ok := parseEnvelope(text)
	if !ok {
		return Envelope{}, headerError(ErrInvalid, fmt.Errorf("%.80q, want \"<id> <due ms> <delay ms> <exchange>\"", text), "")
	}
	return e, nil
}

func headerError(kind, cause error, hint string) error {
	return &Error{Op: "parse", Object: "header " + Header, Kind: kind, Cause: cause, Hint: hint}
}

// maxName is the longest name in bytes: AMQP 0-9-1 counts them in one byte.
const maxName = 255

// maxMillis is the longest delay in milliseconds that a time.Duration holds.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

func parseEnvelope(s string) (e Envelope, ok bool) {
	encoded, rest, ok1 := strings.Cut(s, " ")
	due, rest, ok2 := strings.Cut(rest, " ")
	delay, exchange, ok3 := strings.Cut(rest, " ")
	id, err := url.PathUnescape(encoded)
	dueMillis, err1 := strconv.ParseInt(due, 10, 64)
	delayMillis, err2 := strconv.ParseInt(delay, 10, 64)
	if !ok1 || !ok2 || !ok3 || err != nil || err1 != nil || err2 != nil || id == "" || delayMillis < 0 || delayMillis > maxMillis || len(exchange) > maxName {
		return Envelope{}, false
	}
	return Envelope{
		ID: id, Due: time.UnixMilli(dueMillis), Delay: time.Duration(delayMillis) * time.Millisecond, Exchange: exchange,
	}, true
}

// String returns the value of [Header].
func (e Envelope) String() string {
	var short [128]byte // on the stack; a longer one is allocated
	b := append(append(short[:0], url.PathEscape(e.ID)...), ' ')
	b = append(strconv.AppendInt(b, e.Due.UnixMilli(), 10), ' ')
	delay := e.Delay.Milliseconds()
	if e.Delay%time.Millisecond > 0 {
		delay++ // a delay that is read back is never shorter
	}
	b = append(strconv.AppendInt(b, delay, 10), ' ')
	return string(append(b, e.Exchange...))
}
