package evacuate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// Staging is the queue where messages are between the plugin and the Delayer.
func Staging(prefix string) string { return record.Names(prefix) + "evacuated" }

// Refused is the queue of the messages that the Delayer has refused.
func Refused(prefix string) string { return record.Names(prefix) + "refused" }

// Plan is the two queues.
func Plan(prefix string) topology.Plan {
	return topology.Plan{Queues: []topology.Queue{delivery.Keeping(Staging(prefix)), delivery.Keeping(Refused(prefix))}}
}

// A store is the two queues, locked for this process.
type store struct {
	prefix    string
	reading   *broker.Conn
	publisher *broker.Publisher
	writing   *broker.Conn
	channel   *amqp091.Channel
	in        <-chan amqp091.Delivery
	lost      <-chan *amqp091.Error
	leftover  int // messages in the first queue when the store was opened
	refused   int // and in the second
}

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = true
	exclusive     = true
	autoAck       = true
	noLocal       = true
	waitForAnswer = false
	multiple      = true
)

// openStore declares the queues and takes the first for this process alone.
func openStore(ctx context.Context, opts broker.Options, prefix string) (*store, error) {
	opts.Logger = slog.New(slog.DiscardHandler) // the error is enough
	s := &store{prefix: prefix}
	var err error
	if s.reading, err = broker.Dial(ctx, opts); err != nil {
		return nil, err
	}
	if s.writing, err = broker.Dial(ctx, opts); err != nil {
		s.reading.Close()
		return nil, err
	}
	s.publisher = broker.NewPublisher(opts.Backend, func() {}, s.writing)
	if err := s.take(ctx); err != nil {
		s.close()
		return nil, broker.Explain("evacuate", "", fmt.Sprintf("queue %q", Staging(prefix)), err)
	}
	return s, nil
}

// take takes the lock, declares the queues and consumes the first.
func (s *store) take(ctx context.Context) (err error) {
	if s.channel, err = s.reading.Channel(ctx); err != nil {
		return err
	}
	s.lost = s.channel.NotifyClose(make(chan *amqp091.Error, 1))
	// An exclusive consumer would not do: quorum queues let others consume beside it (seen on
	// RabbitMQ 3.10.8). A second tool is refused at once.
	const allExchanges, noPatience = "", 0
	if _, err = record.Take(ctx, s.reading, s.prefix, allExchanges, noPatience); err != nil {
		return err
	}
	counts := [2]int{}
	for i, q := range Plan(s.prefix).Queues {
		if _, err := s.channel.QueueDeclare(q.Name, durable, !autoDelete, !exclusive, waitForAnswer, q.Args); err != nil {
			return err
		}
		if counts[i], err = s.count(ctx, q.Name); err != nil {
			return err
		}
	}
	if err := objects.Settle(ctx, s.reading, Plan(s.prefix).Queues[len(counts)-1].Name); err != nil {
		return err
	}
	s.leftover, s.refused = counts[0], counts[1]
	const noSize, wholeChannel = 0, false
	if err := s.channel.Qos(batchRows, noSize, wholeChannel); err != nil {
		return err
	}
	s.in, err = s.channel.Consume(Staging(s.prefix), consumerTag, !autoAck, !exclusive, !noLocal, waitForAnswer, nil)
	return err
}

// countWithin is how long the broker may take to put back what an earlier run had in hand.
const countWithin = 30 * time.Second

// count counts a queue. A queue without a leader, as after a restart of its node, seems to be
// empty: so its leader is asked first. What a run that was killed had in hand is not counted before
// it is back, and its consumer is gone.
func (s *store) count(ctx context.Context, queue string) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, countWithin, errors.New("others consume it, or it does not answer"))
	defer cancel()
	for {
		holds, err := objects.Holds(s.channel, queue)
		if err != nil {
			return 0, err
		}
		q, err := s.channel.QueueDeclarePassive(queue, durable, !autoDelete, !exclusive, waitForAnswer, nil)
		if err != nil {
			return 0, err
		}
		if q.Consumers == 0 && (q.Messages > 0 || !holds) {
			return q.Messages, nil
		}
		if pace.Sleep(ctx, countWithin/600) != nil {
			return 0, context.Cause(ctx)
		}
	}
}

const consumerTag = "evacuate"

// close ends the connections. The broker takes back what is not acknowledged.
func (s *store) close() {
	if s.in != nil {
		broker.EndConsuming(s.channel, Staging(s.prefix), consumerTag) // or what was acknowledged might come again
	}
	s.reading.Close()
	s.publisher.Close()
}

func (s *store) next(ctx context.Context) (amqp091.Delivery, error) {
	select {
	case d, ok := <-s.in:
		if ok {
			return d, nil
		}
		err := errLost
		if reason := <-s.lost; reason != nil {
			err = fmt.Errorf("%w: %w", errLost, reason)
		}
		return d, fmt.Errorf("evacuate: queue %q: %w", Staging(s.prefix), err)
	case <-ctx.Done():
		return amqp091.Delivery{}, fmt.Errorf("evacuate: queue %q: no message came: %w", Staging(s.prefix), context.Cause(ctx))
	}
}

var errLost = errors.New("the connection was lost, or the queue deleted (run the command again: nothing is lost)")

// width is how many messages are published at a time.
const width = 256

func (s *store) refuse(ctx context.Context, headers amqp091.Table, body []byte, reason string) error {
	const longest = 1 << 10
	copied := amqp091.Table{reasonHeader: reason[:min(len(reason), longest)]}
	for name, value := range headers {
		if name != reasonHeader && name != "x-delivery-count" && name != "x-acquired-count" {
			copied[name] = value
		}
	}
	return s.publish(ctx, Refused(s.prefix), amqp091.Publishing{DeliveryMode: amqp091.Persistent, Headers: copied, Body: body})
}

func (s *store) publish(ctx context.Context, queue string, msg amqp091.Publishing) error {
	err := s.publisher.Publish(ctx, broker.Publishing{Key: queue, Message: msg})
	var known *delayer.Error
	if errors.As(err, &known) && known.Object == "" {
		known.Op, known.Object = "evacuate", fmt.Sprintf("queue %q", queue)
	}
	return err
}

// parallel calls f for each item, width at a time, and returns the first error. After it, no
// further call begins.
func parallel[T any](list []T, f func(T) error) error {
	all, failed := errgroup.WithContext(context.Background())
	all.SetLimit(width)
	for _, item := range list {
		all.Go(func() error {
			if err := failed.Err(); err != nil {
				return err // not the first: that one is returned
			}
			return f(item)
		})
	}
	return all.Wait()
}

// RowHeader is the header of evacuated messages that their consumers see beside [delayer.Header].
// It is the id of the row in the plugin's table: copies of a message carry the same.
const RowHeader = "x-delayer-row"

// The further headers of a message in our queues. The message's own properties and headers are in
// one of them, encoded: there CC routes nothing, and an expiration does not run.
const (
	nodeHeader       = "x-delayer-row-node"
	dueHeader        = "x-delayer-row-due"
	exchangeHeader   = "x-delayer-row-exchange"
	keysHeader       = "x-delayer-row-keys"
	propertiesHeader = "x-delayer-row-properties"
	reasonHeader     = "x-delayer-refused"
)

// A staged message is a row on its way.
type staged struct {
	ID, Node   string
	Due        int64 // by the node's clock, in milliseconds
	Exchange   string
	Keys       []string
	Properties []byte
	Body       []byte
}

func newStaged(name string, r node.Row) staged {
	return staged{r.ID, name, r.Due, r.Exchange, r.Keys, r.Properties, r.Body}
}

// publishing is the message as our queues have it.
func (s staged) publishing() amqp091.Publishing {
	keys := make([]any, len(s.Keys))
	for i, key := range s.Keys {
		keys[i] = key
	}
	return amqp091.Publishing{
		DeliveryMode: amqp091.Persistent, Body: s.Body,
		Headers: amqp091.Table{
			delayer.Header: message.NewEnvelope(time.UnixMilli(s.Due), 0, s.Exchange).String(),
			RowHeader:      s.ID, nodeHeader: s.Node, dueHeader: s.Due, exchangeHeader: s.Exchange, keysHeader: keys,
			propertiesHeader: s.Properties,
		},
	}
}

func parseStaged(headers amqp091.Table, body []byte) (s staged, err error) {
	ok := [6]bool{}
	s.ID, ok[0] = headers[RowHeader].(string)
	s.Node, ok[1] = headers[nodeHeader].(string)
	s.Due, ok[2] = headers[dueHeader].(int64)
	s.Exchange, ok[3] = headers[exchangeHeader].(string)
	keys, isList := headers[keysHeader].([]any)
	ok[4] = isList && len(keys) > 0
	s.Properties, ok[5] = headers[propertiesHeader].([]byte)
	for _, key := range keys {
		text, isText := key.(string)
		ok[4] = ok[4] && isText
		s.Keys = append(s.Keys, text)
	}
	s.Body = body
	if ok != [6]bool{true, true, true, true, true, true} {
		return s, errors.New("it is not a message that was evacuated")
	}
	return s, nil
}

// original returns the message as it was published, with RowHeader and without x-delay. A row has
// the keys of CC, which its headers have too, and those of BCC, which the broker has taken away.
func (s staged) original() (key string, msg amqp091.Publishing, err error) {
	if msg, err = node.DecodeProperties(s.Properties); err != nil {
		return "", msg, err
	}
	if len(s.Keys) == 0 {
		return "", msg, errors.New("it has no routing key")
	}
	if msg.Headers == nil {
		msg.Headers = amqp091.Table{}
	}
	delete(msg.Headers, "x-delay")
	cc, _ := msg.Headers["CC"].([]any)
	if bcc := s.Keys[min(len(s.Keys), 1+len(cc)):]; len(bcc) > 0 {
		list := make([]any, len(bcc))
		for i, key := range bcc {
			list[i] = key
		}
		msg.Headers["BCC"] = list
	}
	msg.Headers[RowHeader] = s.ID
	msg.Body = s.Body
	return s.Keys[0], msg, nil
}

// unfit says why the Delayer would refuse a message that the plugin can deliver, or "".
func (r *run) unfit(s staged, row node.Row) string {
	if row.Unreadable != "" {
		return "the node cannot read it: " + row.Unreadable
	}
	frame, _, _ := r.store.writing.Server()
	l := r.Delayer.Limits()
	return unfit(s, r.Prefix, r.clocks[s.Node].Until(s.Due), l.Max, message.Limits{FrameSize: frame, User: r.store.writing.User(), MaxPriority: l.MaxPriority})
}

func unfit(s staged, prefix string, remaining, longest time.Duration, lim message.Limits) string {
	key, msg, err := s.original()
	if err != nil {
		return err.Error()
	}
	if remaining > longest {
		return fmt.Sprintf("it is due in more than %v, the longest delay of the configuration", longest)
	}
	if strings.HasPrefix(s.Exchange, prefix+".") {
		return fmt.Sprintf("the exchange begins with the prefix %q of the Delayer", prefix)
	}
	if err := message.Validate(s.Exchange, key, &msg, lim); err != nil {
		return err.Error()
	}
	if moved := s.publishing(); lim.FrameSize > 0 && !message.Fits(&moved, lim.FrameSize-reserve) {
		return "its headers are too large to be moved"
	}
	return ""
}

// reserve is what the queue for refused messages adds to the headers, and the frame around them.
const reserve = 2 << 10
