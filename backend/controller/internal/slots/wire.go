package slots

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// record returns a message as it waits. due is by the broker's clock; 0: that is not known.
func record(m engine.Wait, msg amqp091.Publishing, due brokertime.Due) (bundle.Record, error) {
	if len(m.Envelope.ID) > bundle.MaxID { // of a misrouted message that a stranger wrote
		return bundle.Record{}, fmt.Errorf("its id has %d bytes, at most %d are allowed", len(m.Envelope.ID), bundle.MaxID)
	}
	user := msg.UserId
	msg.UserId = ""
	content := bundle.Content{Envelope: m.Envelope, Due: due, Key: m.Key, To: m.Destinations, Message: msg}
	payload, err := content.Append(make([]byte, 0, len(msg.Body)+besideBody))
	if err != nil {
		return bundle.Record{}, err
	}
	to := content.To[0].(string)
	if m.Envelope.Exchange != "" {
		to = m.Envelope.Exchange + "\x00" + m.Key
	}
	return bundle.Record{ID: m.Envelope.ID, To: to, User: user, Payload: payload}, nil
}

// besideBody is about how many bytes a message has beside its body.
const besideBody = 256

// read reads what came from a queue. user is that of the controller, who alone writes to slots: a
// user-id is believed if the broker has checked it.
func read(d *amqp091.Delivery, q leader.Queue, user, process string) leader.Delivered {
	e := leader.Delivered{Queue: q, Tag: d.DeliveryTag, Again: d.Redelivered}
	if e.Bundle, e.Err = bundle.Read(d.Body); e.Err != nil {
		e.Raw = foreign{d, e.Err}
		return e
	}
	e.Own = e.Bundle.Writer == process
	for i := range e.Bundle.Records {
		r := &e.Bundle.Records[i]
		if r.User != "" && d.UserId != r.User && (!e.Bundle.InSlot || d.UserId != user) {
			r.User = ""
		}
	}
	return e
}

// A foreign delivery is none of a Delayer's.
type foreign struct {
	delivery *amqp091.Delivery
	why      error
}

// due returns a message that is due as a controller delivers it, over a connection with frames of so
// many bytes. The error says why it cannot: then nobody of ours has written it, or the frames were
// larger.
func due(it *leader.Item, frame int) (m settle.Message, err error) {
	c, err := bundle.ReadContent(it.Payload)
	if err != nil {
		return m, err
	}
	for _, key := range c.To {
		if !strings.HasPrefix(key.(string), message.Reserved) {
			return m, fmt.Errorf("it is for %.64q, which is no destination", key)
		}
	}
	bounds := message.Limits{FrameSize: frame, MaxPriority: engine.AnyPriority, Growth: growth}
	if err := message.Validate(c.Envelope.Exchange, c.Key, &c.Message, bounds); err != nil {
		return m, err
	}
	m.Envelope = c.Envelope
	m.Envelope.ID = it.ID
	if is := cmp.Or(it.Wanted, it.Due); c.Due != 0 && is != c.Due { // it was postponed
		by := time.Duration(is-c.Due) * time.Millisecond
		m.Envelope.Due, m.Envelope.Delay = m.Envelope.Due.Add(by), m.Envelope.Delay+by
	}
	p := &c.Message
	m.Delivery = &amqp091.Delivery{
		Headers: p.Headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration, MessageId: p.MessageId,
		Timestamp: p.Timestamp, Type: p.Type, UserId: it.User, AppId: p.AppId, Body: p.Body, RoutingKey: c.Key,
	}
	m.To = c.To
	return m, nil
}
