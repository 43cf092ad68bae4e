package record

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// A Lock is held by one tool at a time. It is a queue that belongs to a connection, and is gone
// with it.
type Lock struct {
	Name  string
	Token string // tells it from the lock of another tool: an argument of the queue
	ch    *amqp091.Channel
}

// ErrLocked means that another tool is at work.
var ErrLocked = errors.New("another delayer migrate is at work")

// Take takes the lock of an exchange, or of all with "". It waits for a tool that holds it, for as
// long as patience: the broker may take some seconds to see that one which was killed is gone. conn
// must live until Release.
func Take(ctx context.Context, conn *broker.Conn, prefix, exchange string, patience time.Duration) (*Lock, error) {
	const pause = 250 * time.Millisecond
	for began := time.Now(); ; {
		l, err := take(ctx, conn, prefix, exchange)
		if !errors.Is(err, ErrLocked) || time.Since(began)+pause > patience {
			return l, err
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func take(ctx context.Context, conn *broker.Conn, prefix, exchange string) (*Lock, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	l := &Lock{Name: Names(prefix) + "lock", Token: rand.Text(), ch: ch}
	if exchange != "" {
		l.Name = Name(prefix, exchange) + ".lock"
	}
	const durable, autoDelete, exclusive = false, false, true
	args := amqp091.Table{"x-queue-type": "classic", "x-delayer-holder": l.Token}
	_, err = ch.QueueDeclare(l.Name, durable, autoDelete, exclusive, waitForAnswer, args)
	if err == nil {
		return l, nil
	}
	_ = ch.Close()
	object := fmt.Sprintf("queue %q", l.Name)
	if broker.Code(err) == amqp091.ResourceLocked {
		return nil, &delayer.Error{
			Op: "lock", Object: object, Kind: delayer.ErrConflict, Cause: ErrLocked,
			Hint: "wait until it has ended; the queue shows its connection",
		}
	}
	return nil, broker.Explain("lock", "", object, err)
}

// Declare declares a record, and Delete deletes one, on the channel of the lock: with a lock that is
// lost they fail.
func (l *Lock) Declare(m topology.Marker) error {
	x := m.Exchange()
	const durable, autoDelete, internal = true, false, false
	err := l.ch.ExchangeDeclare(x.Name, x.Kind, durable, autoDelete, internal, waitForAnswer, x.Args())
	return broker.Explain("declare", "", fmt.Sprintf("exchange %q", m.Name), err)
}

// Delete deletes a record.
func (l *Lock) Delete(name string) error {
	const ifUnused = false
	return broker.Explain("delete", "", fmt.Sprintf("exchange %q", name), l.ch.ExchangeDelete(name, ifUnused, waitForAnswer))
}

// Release gives the lock back. A connection that is lost has done so already.
func (l *Lock) Release() {
	const ifUnused, ifEmpty = false, false
	_, _ = l.ch.QueueDelete(l.Name, ifUnused, ifEmpty, waitForAnswer)
	_ = l.ch.Close()
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods
