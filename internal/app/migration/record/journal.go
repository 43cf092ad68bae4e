package record

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// A Journal holds the lock of an exchange, and its record. Both are on one channel, which nothing
// else uses: while it is open the lock is held.
type Journal struct {
	prefix, exchange string
	conn             *broker.Conn
	ch               *amqp091.Channel
	latest           Record
	found            bool
	held             uint64 // delivery tag of the last record that was read; 0 if none was
	token            string // tells our lock from another tool's
}

// Plan is the queue of an exchange's record. It survives the loss of a node, and being read any
// number of times.
func Plan(prefix, exchange string) topology.Plan {
	return topology.Plan{Queues: []topology.Queue{{
		Name: Queue(prefix, exchange),
		Args: amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": objects.NeverGivenUp},
	}}}
}

// Open takes the lock and reads the record, if there is one. It returns ErrConflict while another
// tool works on the exchange. conn must live until Close.
func Open(ctx context.Context, conn *broker.Conn, prefix, exchange string) (*Journal, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return nil, err
	}
	j := &Journal{prefix: prefix, exchange: exchange, conn: conn, ch: ch, token: rand.Text()}
	if err := j.lock(); err != nil {
		_ = ch.Close()
		return nil, err
	}
	if err := j.read(ctx, conn); err != nil {
		_ = j.Close()
		return nil, j.explain("read", err)
	}
	return j, nil
}

func (j *Journal) read(ctx context.Context, conn *broker.Conn) error {
	queue := Queue(j.prefix, j.exchange)
	exists, err := queueExists(ctx, conn, queue)
	if err != nil {
		return err
	}
	for began := time.Now(); exists; {
		if j.latest, j.held, err = newest(j.ch, queue); err != nil {
			return err
		}
		j.found = j.held > 0
		if j.found || time.Since(began) >= givenBack {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(givenBack / 100):
		}
	}
	return j.ch.Confirm(waitForAnswer)
}

// givenBack is how long Open waits for the record if its queue is there and empty. The tool that
// had it before has given up the lock, but the broker may not have put the record back yet. Taken
// for a migration that never began, it would be overwritten. A queue that stays empty is of a tool
// that was killed before it wrote its first record, and before it changed anything.
const givenBack = 5 * time.Second

// ErrLocked means that another tool holds the lock of an exchange.
var ErrLocked = errors.New("another delayer migrate works on this exchange")

// lock declares the queue that belongs to our connection.
func (j *Journal) lock() error {
	name := Lock(j.prefix, j.exchange)
	args := amqp091.Table{"x-queue-type": "classic", "x-delayer-holder": j.token}
	_, err := j.ch.QueueDeclare(name, !durable, !autoDelete, exclusive, waitForAnswer, args)
	if broker.Code(err) == amqp091.ResourceLocked {
		return &delayer.Error{
			Op: "migrate", Object: fmt.Sprintf("exchange %q", j.exchange), Kind: delayer.ErrConflict,
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
func (j *Journal) Record() (Record, bool) { return j.latest, j.found }

// Save writes a record and returns once the broker has confirmed it. The records before it are
// removed after that.
func (j *Journal) Save(ctx context.Context, r Record) error {
	if err := j.save(ctx, r); err != nil {
		return j.explain("write", err)
	}
	j.latest, j.found = r, true
	return nil
}

func (j *Journal) save(ctx context.Context, r Record) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	q := Plan(j.prefix, j.exchange).Queues[0]
	if _, err := j.ch.QueueDeclare(q.Name, durable, !autoDelete, !exclusive, waitForAnswer, q.Args); err != nil {
		return err
	}
	if !j.found { // the queue may be new
		if err := objects.Settle(ctx, j.conn, q.Name); err != nil {
			return err
		}
	}
	const defaultExchange, mandatory, immediate = "", true, false
	confirm, err := j.ch.PublishWithDeferredConfirmWithContext(ctx, defaultExchange, q.Name, mandatory, immediate, amqp091.Publishing{
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
	if j.held > 0 { // what was read before
		const andBefore = true
		if err := j.ch.Ack(j.held, andBefore); err != nil {
			return err
		}
	}
	if _, j.held, err = newest(j.ch, q.Name); j.held == 0 && err == nil {
		err = errors.New("it is not in its queue: a policy or another consumer removed it")
	}
	return err
}

// Delete removes the record: the migration has ended.
func (j *Journal) Delete() error {
	const ifUnused, ifEmpty = false, false
	if _, err := j.ch.QueueDelete(Queue(j.prefix, j.exchange), ifUnused, ifEmpty, waitForAnswer); err != nil {
		return j.explain("delete", err)
	}
	j.latest, j.found, j.held = Record{}, false, 0
	return nil
}

// Token tells this lock from one that another tool holds later. It is an argument of the lock's
// queue.
func (j *Journal) Token() string { return j.token }

// Locked reports whether the lock is still held: it is lost with the connection.
func (j *Journal) Locked() bool { return !j.ch.IsClosed() }

// Close gives the record and the lock back. A connection that is lost has done so already.
func (j *Journal) Close() error {
	if j.ch.IsClosed() {
		return nil
	}
	const ifUnused, ifEmpty = false, false
	_, err := j.ch.QueueDelete(Lock(j.prefix, j.exchange), ifUnused, ifEmpty, waitForAnswer)
	return errors.Join(err, j.ch.Close())
}

func (j *Journal) explain(op string, err error) error {
	return broker.Explain(op, "", fmt.Sprintf("the record in queue %q", Queue(j.prefix, j.exchange)), err)
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

// Entry is a record that was found in a broker.
type Entry struct {
	Queue  string
	Record Record
	Held   bool // a tool that works on the exchange holds the record: it cannot be read
}

// List reads all records of a prefix without a lock, and leaves them. queues are the names of the
// broker's queues that begin with the prefix.
func List(ctx context.Context, conn *broker.Conn, prefix string, queues []string) ([]Entry, error) {
	var all []Entry
	for _, name := range queues {
		sum, isNamed := strings.CutPrefix(name, Names(prefix))
		if _, err := hex.DecodeString(sum); err != nil || !isNamed || len(sum) != len(hash("")) {
			continue
		}
		e, err := peek(ctx, conn, name)
		if err != nil {
			return nil, broker.Explain("read", "", "the record in queue "+name, err)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Record.Former.Name, b.Record.Former.Name) })
	return all, nil
}

func peek(ctx context.Context, conn *broker.Conn, name string) (Entry, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return Entry{}, err
	}
	defer func() { _ = ch.Close() }() // gives the record back
	r, held, err := newest(ch, name)
	return Entry{Queue: name, Record: r, Held: held == 0}, err
}
