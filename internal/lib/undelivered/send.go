package undelivered

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A Sender sends messages to their destinations, parked ones to their queues.
type Sender struct {
	client    *Client
	conn      *broker.Conn
	publisher *broker.Publisher
	clock     *brokertime.Clock
}

// Sender opens a connection to publish on.
func (b *Client) Sender(ctx context.Context) (*Sender, error) {
	conn, err := broker.Dial(ctx, b.opts)
	if err != nil {
		return nil, err
	}
	publisher := broker.NewPublisher(b.opts.Backend, func() {}, conn)
	return &Sender{client: b, conn: conn, publisher: publisher, clock: newClock(b, publisher)}, nil
}

// Close ends the connection.
func (s *Sender) Close() { s.publisher.Close() }

const noExchange = "no such exchange"

// Send publishes the message to its destination, mandatory, and returns once that is confirmed.
// stays says why it was not, or not by all queues that it is for. With stays or an error, the
// message must not be removed.
func (s *Sender) Send(ctx context.Context, m *Kept) (stays string, err error) {
	if stays, err = s.Unfit(ctx, m); stays != "" || err != nil {
		return stays, err
	}
	exchange, key, _ := m.Destination()
	if exchange != "" { // publishing to a missing one costs the channel
		there, err := delivery.Exists(ctx, s.client.control, exchange, "")
		if err != nil {
			return "", err
		}
		if there == delivery.Gone {
			return noExchange, nil
		}
	}
	err = s.client.stage.Send(ctx, s.client.control, s.publisher, exchange, key, s.again(m))
	if err == nil {
		return "", nil
	}
	return s.refusal(exchange, key, m, err)
}

// again is the message as it is sent. The handler of a parked one will see it as it was, and its
// attempts count from the start. It keeps the user-id that it has in the queue, if that is ours:
// delayer serve tells by it what it has parked itself.
func (s *Sender) again(m *Kept) amqp091.Publishing {
	if m.Parked == nil {
		return message.Again(&m.Delivery, s.conn.User())
	}
	fresh := attempt.State{Queue: m.Parked.Queue, Original: m.Parked.Original}
	const noDelay, defaultExchange, anyPriority = 0, "", 255
	var more amqp091.Table
	if s.client.NewDelay != "" {
		more = amqp091.Table{message.NewDelay: s.client.NewDelay}
	}
	msg := fresh.Publishing(&m.Delivery, anyPriority)
	if user := s.conn.User(); m.UserId == user {
		msg.UserId = user
	}
	return message.Seal(msg, message.NewEnvelope(time.Now(), noDelay, defaultExchange), more)
}

// Unfit says why a message cannot be sent to any destination, or "". It asks the broker for the
// time if a message may have to wait longer: nothing depends on how the operator's machine is set.
func (s *Sender) Unfit(ctx context.Context, m *Kept) (string, error) {
	switch {
	case s.client.Parked() && m.Parked == nil:
		return "it has no header " + attempt.Header + ", so it is not known where it was read: export and purge it", nil
	case s.client.Parked() && !m.believed():
		return fmt.Sprintf("it says that it failed in queue %.120q, and this is not %.120q: a publisher may have written that. If it is right, retry with --from",
			m.Parked.Queue, attempt.ParkedQueue(m.Parked.Queue)), nil
	case s.client.Again != nil:
		return s.client.Again(&m.Delivery, s.conn.User(), s.client.NewDelay), nil
	case s.client.Parked():
		return "", nil
	case m.Bundle != nil && m.Bundle.To == "":
		return m.Bundle.Why + ": export and purge it", nil
	case m.Bundle != nil:
		return s.refused(m), nil
	case !m.Ours && s.client.To == nil:
		return "it has no header " + delayer.Header + ", so its destination is not known: retry with --to EXCHANGE, or --to= for the queue that its key names", nil
	}
	exchange := m.Envelope.Exchange
	if !m.Ours {
		exchange = *s.client.To
	}
	if message.Owns(s.client.prefix, cmp.Or(exchange, m.RoutingKey)) {
		return "its destination is an object of the Delayer's own", nil
	}
	if !m.waited() {
		now, known := s.clock.Read()
		if !known {
			err := s.clock.Ask(ctx)
			if broker.Code(err) == amqp091.NotFound { // the first question of all: the next declares what it needs
				err = s.clock.Ask(ctx)
			}
			if err != nil {
				return "", err
			}
			now, _ = s.clock.Read()
		}
		if waits := m.waits(now.Earliest); waits != "" {
			return waits, nil
		}
	}
	return s.refused(m), nil
}

// refused says why the broker would refuse a message, or "".
func (s *Sender) refused(m *Kept) string {
	frame, _, _ := s.conn.Server()
	again := message.Again(&m.Delivery, s.conn.User())
	switch {
	case frame > 0 && !message.Fits(&again, frame):
		return "its headers are larger than a frame, so nobody can receive it: export and purge it"
	case m.UserId != "" && m.UserId != s.conn.User():
		return fmt.Sprintf("its user-id is %q: log in as that user", m.UserId)
	}
	return ""
}

// refusal distinguishes what the destination says of a message from an unknown outcome. One message
// is published at a time, so a channel error is about that one.
func (s *Sender) refusal(exchange, key string, m *Kept, err error) (stays string, failed error) {
	switch c := broker.Code(err); {
	case errors.Is(err, delayer.ErrUnroutable) && exchange == "":
		return "no such queue", nil
	case errors.Is(err, delayer.ErrUnroutable):
		return "nothing is bound there for its key", nil
	case errors.Is(err, delayer.ErrRefused) && exchange == "" && len(message.Copies(m.Headers)) == 0:
		return "the queue refuses it: is it full?", nil
	case errors.Is(err, delayer.ErrRefused):
		return "a queue there refuses it: is it full? Other queues may have it, and get it again with the next retry", nil
	case c == amqp091.NotFound:
		return noExchange, nil
	case c == amqp091.AccessRefused:
		return "the user may not write there: rabbitmqctl set_permissions", nil
	}
	var known *delayer.Error
	if errors.As(err, &known) && known.Object == "" {
		known.Object = delivery.Place(exchange, key)
	}
	return "", err
}

// newClock learns the broker's time for one Sender. Its questions expire in a queue that is
// exclusive to the control connection, and deleted with it; the exchanges go with the queues:
//
//	<prefix>.clock.<id>            leads to the queue
//	<prefix>.clock.<id>.expiring   the queue in which questions expire
//	<prefix>.clock.<id>.answers    the exchange that they are dead-lettered to
func newClock(c *Client, publisher *broker.Publisher) *brokertime.Clock {
	name := c.prefix + ".clock." + rand.Text()[:8]
	shared := brokertime.Shared{Queue: name + ".expiring", Exchange: name, Key: "question", Answers: name + ".answers"}
	shared.Restore = func(ctx context.Context) error {
		return c.control.Do(ctx, func(ch *amqp091.Channel) error {
			const durable, autoDelete, internal, waitForAnswer = false, true, false, false
			for _, exchange := range []string{name, shared.Answers} {
				if err := ch.ExchangeDeclare(exchange, amqp091.ExchangeDirect, durable, autoDelete, internal, waitForAnswer, nil); err != nil {
					return err
				}
			}
			_, err := ch.QueueDeclare(shared.Queue, durable, !autoDelete, exclusive, waitForAnswer, amqp091.Table{
				"x-queue-type": "classic", "x-dead-letter-exchange": shared.Answers,
			})
			if err != nil {
				return err
			}
			return ch.QueueBind(shared.Queue, shared.Key, name, waitForAnswer, nil)
		})
	}
	return brokertime.New(brokertime.Config{
		Backend: c.opts.Backend, Prefix: c.prefix, Logger: c.opts.Slog(), Control: c.control, Shared: shared,
		Publish: func(ctx context.Context, p broker.Publishing) error { return publisher.PublishDirect(ctx, p) },
	})
}
