package slots

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// kindHeader says what a message of ours is that is no user's:
//
//	change <id> <due> <next due>     0: it is dropped
//	mark <tenure> <number>
//	summons
const (
	kindHeader    = "x-delayer-wheel"
	kindOfChange  = "change"
	kindOfMark    = "mark"
	kindOfSummons = "summons"
)

// small is the message of that kind: all is in the header.
func small(kind string) amqp091.Publishing {
	msg := amqp091.Publishing{DeliveryMode: amqp091.Persistent}
	return message.Seal(msg, message.NewEnvelope(time.Now(), 0, ""), amqp091.Table{kindHeader: kind})
}

func markText(id wheel.MarkID) string {
	return kindOfMark + " " + id.Tenure + " " + strconv.FormatInt(id.Number, 10)
}

func changeText(id string, due, next brokertime.Due) string {
	return fmt.Sprintf("%s %s %d %d", kindOfChange, id, due, next)
}

const (
	// besideBody is about how much larger a message is in memory than its body, its stamp and the
	// user's headers.
	besideBody = 1 << 10
	// besideField is about how much larger a header is in memory than its name and a value with
	// bytes of its own: 80 to 120 bytes, and half of that in a list.
	besideField = 100
)

// A carried message is one delivery, with what the machine knows of it. The body of a wheel.Message
// points to the carried message that it is of.
type carried struct {
	wheel   wheel.Message
	message *stamp.Message // nil: a change, a mark or a summons, of which only kind is kept
	kind    string
	foreign error  // why it is foreign
	tag     uint64 // of the delivery
}

func carriedBy(m *wheel.Message) *carried { return m.Body.(*carried) }

func read(d *amqp091.Delivery) *carried {
	c := &carried{tag: d.DeliveryTag}
	c.wheel.Body, c.wheel.Again = c, d.Redelivered
	text, _ := d.Headers[message.Stamp].(string)
	c.wheel.Size = len(d.Body) + len(text) + besideBody
	if kind, is := d.Headers[kindHeader].(string); is && text == "" && c.readKind(kind) {
		return c
	}
	c.message = new(stamp.Message)
	*c.message, c.foreign = stamp.ReadMessage(d)
	if c.foreign == nil && !validID(c.message.Envelope.ID) {
		c.foreign = fmt.Errorf("its id is %.64q", c.message.Envelope.ID)
	}
	if c.foreign != nil {
		c.wheel.Kind, c.wheel.Size = wheel.Foreign, c.wheel.Size+held(d.Headers)
		return c
	}
	c.wheel.Size += held(c.message.Delivery.Headers)
	c.message.Unwrap()
	s := &c.message.Stamp
	c.wheel.Kind, c.wheel.ID, c.wheel.Ticket = wheel.User, c.message.Envelope.ID, s.Ticket
	c.wheel.Due, c.wheel.Then, c.wheel.Left = s.Due, s.Then, s.Left
	c.wheel.Own, c.wheel.OwnDue = s.Own(), s.OwnDue
	c.wheel.To = s.To[0].(string)
	if exchange := c.message.Envelope.Exchange; exchange != "" {
		c.wheel.To = exchange + "\x00" + c.message.Delivery.RoutingKey
	}
	return c
}

// held is about how many bytes of memory the value of a header takes, beside its field.
func held(value any) (bytes int) {
	switch v := value.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	case amqp091.Table:
		for name, value := range v {
			bytes += besideField + len(name) + held(value)
		}
	case []any:
		for _, value := range v {
			bytes += besideField + held(value)
		}
	}
	return bytes
}

// readKind reads what is no user's message. It is false for what no Delayer has written.
func (c *carried) readKind(text string) bool {
	word := strings.Split(text, " ")
	switch {
	case text == kindOfSummons:
		c.wheel.Kind = wheel.Summons
	case word[0] == kindOfMark && len(word) == 3:
		number, err := strconv.ParseInt(word[2], 10, 64)
		if err != nil {
			return false
		}
		c.wheel.Kind, c.wheel.Mark = wheel.Mark, wheel.MarkID{Tenure: word[1], Number: number}
	case word[0] == kindOfChange && len(word) == 4:
		var times [2]int64
		for i, t := range word[2:] {
			var err error
			if times[i], err = strconv.ParseInt(t, 10, 64); err != nil {
				return false
			}
		}
		due, next := brokertime.Due(times[0]), brokertime.Due(times[1])
		if !validID(word[1]) || !due.Valid() || next != 0 && !next.Valid() {
			return false
		}
		c.wheel.Kind, c.wheel.ID, c.wheel.Due, c.wheel.Next = wheel.Change, word[1], due, next
	default:
		return false
	}
	c.kind = text
	return true
}

// follow makes what consumers see of a message's due time that to which it was postponed.
func (c *carried) follow() {
	at := c.wheel.PostponedTo
	if at == 0 || c.message.Stamp.Due == at {
		return
	}
	s := &c.message.Stamp
	by, e := time.Duration(at-s.Due)*time.Millisecond, &c.message.Envelope
	e.Due, e.Delay, s.Due = e.Due.Add(by), e.Delay+by, at
}

// next is the message as it is published to wait again, with what the machine says of it now.
func (c *carried) next(user string) amqp091.Publishing {
	if c.wheel.Kind != wheel.User {
		return small(c.kind)
	}
	was, is := c.message.Stamp, &c.wheel
	next := stamp.Stamp{
		Clock: stamp.Foreign, Due: is.Due, Ticket: is.Ticket, Then: is.Then,
		Key: &c.message.Delivery.RoutingKey, To: was.To, BCC: was.BCC,
	}
	if is.Own {
		next.Clock, next.OwnDue = stamp.Own(is.OwnDue)
	}
	return c.message.Wait(user, next)
}
