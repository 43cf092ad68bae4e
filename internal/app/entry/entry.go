// Package entry passes on what is published to an exchange: messages that ask for a delay through a
// Delayer, all others at once. So services that know nothing of Delayer delay messages with a header, as
// they did with the x-delayed-message plugin.
//
//	publisher → exchange → queue → here ─┬→ Delayer → destination
//	                                     └→ destination
//
// A message is acknowledged once it is confirmed where it goes: at least once. Any number of processes
// may serve an entry. What cannot be passed on goes to a queue of parked messages, which `delayer
// messages` reads.
package entry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// Config is what all entries of a process share.
type Config struct {
	Settings engine.Settings // broker and prefix
	Delayer  delayer.Delayer // of the same broker; the caller closes it
	Prefetch int             // how many messages of an entry are under way at a time
}

// An Entry is an exchange whose messages are passed on.
type Entry struct {
	Exchange string // for logs
	Names    Names
	To       Destinations

	// Plan is declared again where a queue of it turns out to be gone. It need not have all that the
	// entry needs.
	Plan topology.Plan

	// TrustTimestamps counts a delay from when the broker, or the publisher, says that the message was
	// published, not from when it is read here. If that clock is behind ours, messages are early.
	TrustTimestamps bool
	// KeepXDelay gives consumers the x-delay header that the plugin leaves. Each delayed message then
	// comes back here when it is due.
	KeepXDelay bool
}

// Names are the queues of an entry.
type Names struct {
	Queue  string // what is published
	Back   string // what comes back: see [Back]
	Parked string // what cannot be passed on
}

// A Runner passes on the messages of entries.
type Runner struct {
	cfg       Config
	log       *slog.Logger
	in        *broker.Conn // consumes
	control   *broker.Control
	publisher *broker.Publisher
	allowed   bool // this user may publish with the user-id of another
	served    []*forwarder
}

// Open connects. Declare the queues, and serve them with Run. Its errors are those of package delayer.
func Open(ctx context.Context, cfg Config) (*Runner, error) {
	r := &Runner{cfg: cfg, log: cfg.Settings.BrokerOptions("").Slog()}
	if err := r.open(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Runner) open(ctx context.Context) error {
	reading := r.cfg.Settings.BrokerOptions("entry")
	reading.LargeFrames = true
	var err error
	if r.in, err = broker.Dial(ctx, reading); err != nil {
		return err
	}
	asking, err := broker.Dial(ctx, r.cfg.Settings.BrokerOptions("entry control"))
	if err != nil {
		return err
	}
	r.control = broker.NewControl(asking)
	out, err := broker.Dial(ctx, r.cfg.Settings.BrokerOptions("entry publish"))
	if err != nil {
		return err
	}
	r.publisher = broker.NewPublisher("", func() {}, out)
	r.allowed, err = impersonates(ctx, asking)
	return err
}

// Control declares and asks.
func (r *Runner) Control() *broker.Control { return r.control }

// Add has an entry served by Run. Its plan is declared.
func (r *Runner) Add(ctx context.Context, e Entry) error {
	declare := func(ctx context.Context) error { return objects.Of(r.control, "").Apply(ctx, e.Plan) }
	if err := declare(ctx); err != nil {
		return err
	}
	conn := r.control.Conn()
	r.served = append(r.served, &forwarder{
		rules: rules{
			Names: e.Names, to: e.To, limits: r.cfg.Delayer.Limits(), user: conn.User(), impersonate: r.allowed,
			trust: e.TrustTimestamps, keep: e.KeepXDelay, turns: turns(conn),
		},
		delayer: r.cfg.Delayer, direct: r.publisher.PublishDirect, declare: declare, log: r.log.With("exchange", e.Exchange),
		frame: func() int { size, _, _ := conn.Server(); return size },
	})
	return nil
}

// AddAll has specs served by Run. Where an exchange of theirs is missing it is declared.
func (r *Runner) AddAll(ctx context.Context, specs []Spec) error {
	for _, s := range specs {
		if err := r.refuseCircle(ctx, s.To); err != nil {
			return err
		}
		if err := r.Add(ctx, s.entry(r.cfg.Settings.Prefix, specs)); err != nil {
			return err
		}
		if err := r.declareTarget(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// refuseCircle refuses a destination that is an entry of another process.
func (r *Runner) refuseCircle(ctx context.Context, to string) error {
	if to == "" {
		return nil
	}
	queue := NamesOf(r.cfg.Settings.Prefix, to).Queue
	presence, err := delivery.Exists(ctx, r.control, "", queue)
	if err == nil && presence == delivery.There {
		cause := fmt.Errorf("to: %q is an entry itself, with queue %q: messages would go in a circle", to, queue)
		err = engine.ConfigError("serve.exchanges", cause, "name the exchange that consumers bind to")
	}
	return err
}

// declareTarget declares where messages go, unless it is there: it may be of any type.
func (r *Runner) declareTarget(ctx context.Context, s Spec) error {
	if s.To == "" {
		return nil
	}
	presence, err := delivery.Exists(ctx, r.control, s.To, "")
	if err != nil || presence == delivery.There {
		return err
	}
	r.log.Info("an exchange is declared: consumers bind their queues to it", "exchange", s.To, "type", s.kind())
	target := topology.Plan{Exchanges: []topology.Exchange{{Name: s.To, Kind: s.kind()}}}
	return objects.Of(r.control, "").Apply(ctx, target)
}

// turns reports whether consumers see x-delay with its sign turned on what the plugin has
// delivered. Before RabbitMQ 4.0 they see it as it was published: the plugin changes only the
// decoded form of the headers.
func turns(conn *broker.Conn) bool {
	_, _, version := conn.Server()
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 4
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods

// impersonates reports whether the broker lets this user publish with the user-id of another. It
// closes the channel over it otherwise.
func impersonates(ctx context.Context, conn *broker.Conn) (bool, error) {
	ch, err := conn.Channel(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = ch.Close() }()
	const mandatory, immediate = true, true
	if err := ch.Confirm(waitForAnswer); err != nil {
		return false, err
	}
	const nobody, nowhere = "delayer.nobody", "delayer.nowhere"
	confirm, err := ch.PublishWithDeferredConfirm("", nowhere, !mandatory, !immediate, amqp091.Publishing{UserId: conn.User() + nobody})
	if err != nil {
		return false, err
	}
	return confirm.WaitContext(ctx)
}

// Run passes messages on until ctx ends. Then it takes no more, waits up to ten seconds for those
// that are under way, and gives back the others.
func (r *Runner) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range r.served {
		for _, queue := range []string{f.Queue, f.Back} {
			running.Go(func() { r.consume(ctx, f, queue) })
		}
	}
	running.Wait()
	var counts []any
	for action, n := range r.Counts() {
		counts = append(counts, action, n)
	}
	r.log.Info("stopped; what was not passed on is back in the broker", counts...)
}

// Counts are how many messages were passed on, by what was done with them.
func (r *Runner) Counts() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for a, name := range actions {
			sum := int64(0)
			for _, f := range r.served {
				sum += f.counts[a].Load()
			}
			if !yield(name, sum) {
				return
			}
		}
	}
}

func (r *Runner) consume(ctx context.Context, f *forwarder, queue string) {
	broker.Consume(ctx, r.in, broker.Consuming{
		Queue: queue, Prefetch: r.cfg.Prefetch,
		Serve: func(alive context.Context, messages <-chan amqp091.Delivery) {
			f.serve(ctx, alive, queue, messages)
		},
		Failed: func(ctx context.Context, err error) {
			f.log.Warn("a queue is not read any more; what was not passed on comes again", "queue", queue, "error", err)
			if broker.Code(err) != amqp091.NotFound {
				return
			}
			if err := f.declare(ctx); err != nil && !errors.Is(err, context.Canceled) {
				f.log.Warn("a queue is gone and cannot be declared", "queue", queue, "error", err)
			}
		},
	})
}

// Close ends the connections. Call it after Run.
func (r *Runner) Close() {
	if r.publisher != nil {
		r.publisher.Close()
	}
	if r.control != nil {
		r.control.Close()
	}
	if r.in != nil {
		r.in.Close()
	}
}

// Destinations say where messages of an entry go.
type Destinations struct {
	To    string            // the exchange of all; or "":
	Allow func(string) bool // header [ExchangeHeader] names one, and this permits it
}

// of is the exchange that a message goes to.
func (d Destinations) of(headers amqp091.Table) (string, error) {
	if d.To != "" {
		return d.To, nil
	}
	name, ok := headers[ExchangeHeader].(string)
	switch {
	case !ok || name == "":
		return "", fmt.Errorf("header %s does not name an exchange", ExchangeHeader)
	case !d.Allow(name):
		return "", fmt.Errorf("exchange %.120q is not allowed", name)
	}
	return name, nil
}
