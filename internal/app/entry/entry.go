// Package entry passes on what is published to an exchange: messages that ask for a delay through a
// Delayer, all others at once. So services that know nothing of Delayer delay messages with a
// header, as they did with the x-delayed-message plugin.
//
//	publisher → exchange → queue → here ─┬→ Delayer → destination
//	                                     └→ destination
//
// A message is acknowledged once it is confirmed where it goes: at least once. Any number of
// processes may serve an entry. What cannot be passed on goes to a queue of parked messages, which
// `delayer messages` reads.
package entry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

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
	Reserved []string        // exchanges of the Delayer, whatever their names begin with
	Entries  []Spec

	// Passed is called for each message that was passed on, unless it is nil. exchange is the
	// entry, action at_once, delayed, delayed_to_come_back, parked or dropped, and took the time from when
	// the message was read until it was confirmed where it went.
	Passed func(exchange, action string, took time.Duration)
}

// Names are the queues of an entry.
type Names struct {
	Queue  string // what is published
	Back   string // what comes back: see [Back]
	Parked string // what cannot be passed on
}

// queues are those of an entry that are consumed, each on a channel of its own.
const queues = 2

// A Runner passes on the messages of entries.
type Runner struct {
	cfg       Config
	log       *slog.Logger
	in        *broker.Conn // consumes
	control   *broker.Control
	publisher *broker.Publisher
	served    []*forwarder
}

// Open connects, unless there are no entries, and declares what they need. An exchange that is still
// the plugin's stays as it is, with a warning: nothing is published to its entry before `delayer
// migrate switch`. Errors are those of package delayer.
func Open(ctx context.Context, cfg Config) (*Runner, error) {
	r := &Runner{cfg: cfg, log: cfg.Settings.BrokerOptions("").Slog()}
	if err := r.open(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Runner) open(ctx context.Context) error {
	if len(r.cfg.Entries) == 0 {
		return nil
	}
	reading := r.cfg.Settings.BrokerOptions("entry")
	reading.AnyHeaders, reading.Channels = true, queues*len(r.cfg.Entries)
	var err error
	if r.in, err = broker.Dial(ctx, reading.Opening(reading.Channels)); err != nil {
		return err
	}
	asking, err := broker.Dial(ctx, r.cfg.Settings.BrokerOptions("entry control").Opening(broker.ControlChannels))
	if err != nil {
		return err
	}
	r.control = broker.NewControl(asking)
	out, err := broker.Dial(ctx, r.cfg.Settings.BrokerOptions("entry publish").Opening(broker.PublisherChannels))
	if err != nil {
		return err
	}
	r.publisher = broker.NewPublisher("", func() {}, out)
	for _, s := range r.cfg.Entries {
		if s.To != "" {
			circle, err := r.isEntry(ctx, s.To)
			if err != nil {
				return err
			}
			if circle {
				cause := fmt.Errorf("to: %q is an entry itself, of another process: messages would go in a circle", s.To)
				return engine.ConfigError("serve.exchanges", cause, "name the exchange that consumers bind to")
			}
		}
		if s.proxied && r.control.Conn().User() == "" {
			cause := errors.New("the url names no user, and what serve.amqp has published is recognized by it")
			return engine.ConfigError("url", cause, "write the name that the certificate has: amqps://delayer@host/")
		}
		if err := r.declare(ctx, s); err != nil {
			return err
		}
		r.served = append(r.served, r.forwarder(s))
	}
	return nil
}

func (r *Runner) forwarder(s Spec) *forwarder {
	prefix, conn, refused := r.cfg.Settings.Prefix, r.control.Conn(), slices.Clone(r.cfg.Reserved)
	for _, entry := range r.cfg.Entries {
		refused = append(refused, entry.Name)
	}
	return &forwarder{
		rules: rules{
			Names: NamesOf(prefix, s.Name), spec: s, allowed: s.allowed(prefix, refused), limits: r.cfg.Delayer.Limits(),
			user: conn.User(), prefix: prefix, recounts: conn.From(4, 0),
		},
		delayer: r.cfg.Delayer, direct: r.publisher.PublishDirect, log: r.log.With("exchange", s.Name),
		declare:  func(ctx context.Context) error { return r.declare(ctx, s) },
		prefetch: r.cfg.Prefetch,
		isEntry:  r.isEntry,
		frame:    func() int { size, _, _ := conn.Server(); return size },
		passed: func(action string, took time.Duration) {
			if r.cfg.Passed != nil {
				r.cfg.Passed(s.Name, action, took)
			}
		},
	}
}

// declare declares what an entry needs. The exchange that consumers bind to comes with the switch
// if the plugin has the exchange before it.
func (r *Runner) declare(ctx context.Context, s Spec) error {
	objects := objects.Of(r.control, "")
	if err := objects.Apply(ctx, s.Side(r.cfg.Settings.Prefix)); err != nil {
		return err
	}
	err := objects.Apply(ctx, s.Front(r.cfg.Settings.Prefix))
	var refused *amqp091.Error
	if errors.As(err, &refused) && refused.Code == amqp091.PreconditionFailed && strings.Contains(refused.Reason, "current is ''x-delayed-message''") {
		r.log.Warn("an exchange is still the x-delayed-message plugin's, which delays what is published to it; its messages come here after delayer migrate switch --mode serve",
			"exchange", s.Name)
		return nil
	}
	if err != nil || s.To == "" {
		return err
	}
	presence, err := delivery.Exists(ctx, r.control, s.To, "")
	if err != nil || presence == delivery.There { // it may be of any type
		return err
	}
	r.log.Info("an exchange is declared: consumers bind their queues to it", "exchange", s.To, "type", s.kind())
	return objects.Apply(ctx, topology.Plan{Exchanges: []topology.Exchange{{Name: s.To, Kind: s.kind()}}})
}

// isEntry reports whether an exchange is an entry of any process with this prefix: the broker knows
// one by its queue.
func (r *Runner) isEntry(ctx context.Context, exchange string) (bool, error) {
	there, err := delivery.Exists(ctx, r.control, "", NamesOf(r.cfg.Settings.Prefix, exchange).Queue)
	return there == delivery.There, err
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
}

// Ready returns an error that names an entry whose queues are not all consumed.
func (r *Runner) Ready() error {
	for _, f := range r.served {
		if f.reading.Load() < queues {
			return fmt.Errorf("exchange %q is not served: a queue of it is not consumed, and the log says why", f.spec.Name)
		}
	}
	return nil
}

// A Depth is how many messages lie in the queues of an entry. What is under way is not among them.
type Depth struct {
	Exchange        string
	Waiting, Parked int
}

// Depths asks the broker.
func (r *Runner) Depths(ctx context.Context) (all []Depth, err error) {
	for _, f := range r.served {
		d := Depth{Exchange: f.spec.Name}
		for queue, sum := range map[string]*int{f.Queue: &d.Waiting, f.Back: &d.Waiting, f.Parked: &d.Parked} {
			q, err := r.control.Queue(ctx, queue)
			if err != nil {
				return nil, err
			}
			*sum += q.Messages
		}
		all = append(all, d)
	}
	return all, nil
}

func (r *Runner) consume(ctx context.Context, f *forwarder, queue string) {
	broker.Consume(ctx, r.in, broker.Consuming{
		Queue: queue, Prefetch: r.cfg.Prefetch,
		Serve: func(alive context.Context, messages <-chan amqp091.Delivery) {
			f.reading.Add(1)
			defer f.reading.Add(-1)
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
