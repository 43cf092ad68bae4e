package record

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/topology"
)

// A Keeper holds the lock of an exchange, and its record. Both are on one channel, which nothing
// else uses: while it is open the lock is held.
type Keeper struct {
	prefix, exchange string
	ch               *amqp091.Channel
	latest           Record
	found            bool
	held             uint64 // delivery tag of the last record that was read; 0 if none was
	token            string // tells our lock from another tool's
}

// Plan is the queue of an exchange's record, as data.
func Plan(prefix, exchange string) topology.Plan {
	return topology.Plan{Queues: []topology.Queue{{Name: Queue(prefix, exchange), Args: queueArgs()}}}
}

// queueArgs make a record survive the loss of a node, and being read any number of times.
func queueArgs() amqp091.Table {
	return amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": topology.NeverGivenUp}
}

// Open takes the lock and reads the record, if there is one. It returns ErrConflict while another
// tool works on the exchange. conn must live until Close.
func Open(ctx context.Context, conn *broker.Conn, prefix, exchange string) (*Keeper, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	k := &Keeper{prefix: prefix, exchange: exchange, ch: ch, token: rand.Text()}
	if err := k.lock(); err != nil {
		_ = ch.Close()
		return nil, err
	}
	if err := k.read(ctx, conn); err != nil {
		_ = k.Close()
		return nil, k.explain("read", err)
	}
	return k, nil
}

func (k *Keeper) read(ctx context.Context, conn *broker.Conn) error {
	queue := Queue(k.prefix, k.exchange)
	exists, err := queueExists(ctx, conn, queue)
	if err != nil {
		return err
	}
	if exists {
		if k.latest, k.held, err = newest(k.ch, queue); err != nil {
			return err
		}
		k.found = k.held > 0
	}
	return k.ch.Confirm(waitForAnswer)
}

// ErrLocked means that another tool holds the lock of an exchange.
var ErrLocked = errors.New("another delayer migrate works on this exchange")

// lock declares the queue that belongs to our connection.
func (k *Keeper) lock() error {
	name := Lock(k.prefix, k.exchange)
	args := amqp091.Table{"x-queue-type": "classic", "x-delayer-holder": k.token}
	_, err := k.ch.QueueDeclare(name, !durable, !autoDelete, exclusive, waitForAnswer, args)
	if broker.Code(err) == amqp091.ResourceLocked {
		return &delayer.Error{
			Op: "migrate", Object: fmt.Sprintf("exchange %q", k.exchange), Kind: delayer.ErrConflict,
			Cause: ErrLocked,
			Hint:  fmt.Sprintf("wait until it has ended; queue %q shows its connection", name),
		}
	}
	return broker.Explain("lock", "", fmt.Sprintf("queue %q", name), err)
}

// newest reads all records in a queue and returns that with the highest number, and the delivery
// tag of the last one read. They stay unacknowledged: they are back when the channel closes.
func newest(ch *amqp091.Channel, queue string) (latest Record, held uint64, err error) {
	const autoAck = false
	for {
		d, ok, err := ch.Get(queue, autoAck)
		if err != nil || !ok {
			return latest, held, err
		}
		var r Record
		if err := json.Unmarshal(d.Body, &r); err != nil {
			return latest, held, fmt.Errorf("not a record of delayer migrate: %w", err)
		}
		held = d.DeliveryTag
		if r.Number >= latest.Number {
			latest = r
		}
	}
}

// Record returns the latest record, and whether there is one.
func (k *Keeper) Record() (Record, bool) { return k.latest, k.found }

// Save writes a record and returns once the broker has confirmed it. The records before it are
// removed after that.
func (k *Keeper) Save(ctx context.Context, r Record) error {
	if err := k.save(ctx, r); err != nil {
		return k.explain("write", err)
	}
	k.latest, k.found = r, true
	return nil
}

func (k *Keeper) save(ctx context.Context, r Record) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	queue := Queue(k.prefix, k.exchange)
	if _, err := k.ch.QueueDeclare(queue, durable, !autoDelete, !exclusive, waitForAnswer, queueArgs()); err != nil {
		return err
	}
	const defaultExchange, mandatory, immediate = "", true, false
	confirm, err := k.ch.PublishWithDeferredConfirmWithContext(ctx, defaultExchange, queue, mandatory, immediate, amqp091.Publishing{
		ContentType: "application/json", DeliveryMode: amqp091.Persistent, Body: body,
	})
	if err != nil {
		return err
	}
	switch stored, err := confirm.WaitContext(ctx); {
	case err != nil:
		return err
	case !stored:
		return errors.New("the broker did not confirm it")
	}
	return k.replace(queue)
}

// replace acknowledges what was read before, and reads the record that was just written.
func (k *Keeper) replace(queue string) error {
	if k.held > 0 {
		const andBefore = true
		if err := k.ch.Ack(k.held, andBefore); err != nil {
			return err
		}
	}
	_, held, err := newest(k.ch, queue)
	if held == 0 && err == nil {
		err = errors.New("it is not in its queue: a policy or another consumer removed it")
	}
	k.held = held
	return err
}

// Delete removes the record: the migration has ended.
func (k *Keeper) Delete() error {
	const ifUnused, ifEmpty = false, false
	if _, err := k.ch.QueueDelete(Queue(k.prefix, k.exchange), ifUnused, ifEmpty, waitForAnswer); err != nil {
		return k.explain("delete", err)
	}
	k.latest, k.found, k.held = Record{}, false, 0
	return nil
}

// Token tells this lock from one that another tool holds later. It is an argument of the lock's queue.
func (k *Keeper) Token() string { return k.token }

// Locked reports whether the lock is still held: it is lost with the connection.
func (k *Keeper) Locked() bool { return !k.ch.IsClosed() }

// Close gives the record and the lock back. A connection that is lost has done so already.
func (k *Keeper) Close() error {
	if k.ch.IsClosed() {
		return nil
	}
	const ifUnused, ifEmpty = false, false
	_, err := k.ch.QueueDelete(Lock(k.prefix, k.exchange), ifUnused, ifEmpty, waitForAnswer)
	return errors.Join(err, k.ch.Close())
}

func (k *Keeper) explain(op string, err error) error {
	return broker.Explain(op, "", fmt.Sprintf("the record in queue %q", Queue(k.prefix, k.exchange)), err)
}

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = true
	exclusive     = true
	waitForAnswer = false
)

// queueExists asks on a channel of its own, which a missing queue closes.
func queueExists(ctx context.Context, conn *broker.Conn, name string) (bool, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = ch.Close() }()
	_, err = ch.QueueDeclarePassive(name, durable, !autoDelete, !exclusive, waitForAnswer, nil)
	switch broker.Code(err) {
	case amqp091.NotFound:
		return false, nil
	case 0:
		return err == nil, err
	}
	return false, broker.Explain("look at", "", fmt.Sprintf("queue %q", name), err)
}
