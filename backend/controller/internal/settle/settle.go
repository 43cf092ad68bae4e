// Package settle publishes what a controller has taken: messages that are due to their
// destinations, and foreign ones to the queue for unroutable messages. Each call is one attempt,
// and returns what became of it. When to try again, and when to acknowledge, is the caller's
// business.
package settle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// A publisher publishes with confirms: [broker.Publisher].
type publisher interface {
	Publish(ctx context.Context, msg broker.Publishing) error
	PublishDirect(ctx context.Context, msg broker.Publishing) error
}

// Longest is the longest delay. No sum of delays and times overflows an int64 of nanoseconds.
const Longest = 200 * 365 * 24 * time.Hour

var clockStart = time.Now()

// Reading is a time on this process's monotonic clock, which means nothing to another process.
func Reading(t time.Time) time.Duration { return t.Sub(clockStart) }

// A Message is one that a controller has taken.
type Message struct {
	Delivery *amqp091.Delivery // as the user published it
	Envelope message.Envelope
	To       []any // the delivery keys of its destinations, strings
	BCC      []any // the user's own BCC, which the broker takes away, strings
}

// publishing returns it as it is published to its destinations, with keys beside the user's.
func (m *Message) publishing(user string, keys ...any) amqp091.Publishing {
	var bcc amqp091.Table
	if len(m.BCC) > 0 {
		bcc = amqp091.Table{"BCC": m.BCC}
	}
	return message.SealAgain(m.Delivery, user, m.Envelope, bcc, keys...)
}

// A Settler publishes for a controller. It is safe for concurrent use.
type Settler struct {
	Backend  string
	Stage    delivery.Stage
	User     string // of the connection that publishes
	Observer delayer.Observer
	Log      *slog.Logger

	out      publisher
	renew    func(ctx context.Context, age time.Duration) error           // keeper.Keeper.Renew
	doubt    func()                                                       // keeper.Keeper.Doubt
	missing  func(ctx context.Context, p topology.Plan) ([]string, error) // objects.Live.Missing
	foreign  sync.Mutex                                                   // held while a foreign message is published
	staged   pace.Pauses[string]                                          // exchanges of users that do not exist, or to which it may not write
	warnings pace.Warnings
}

// Warn logs each text at most once a minute.
func (s *Settler) Warn(text string, args ...any) { s.warnings.Warn(s.Log, text, args...) }

// Refused reports whether an error of Deliver, Keep or Publish says that no queue has taken the
// message: a queue refuses it, as a full one may (then others may have it), or it was returned. It
// should wait for a while, and others need not wait for it. After any other error it is unknown
// whether the message is stored, or the fault is not the message's: try again soon.
func Refused(err error) bool {
	return errors.Is(err, delayer.ErrRefused) || errors.Is(err, broker.ErrReturned)
}

// declaredFor is the time after a declaration in which a returned message causes no other.
const declaredFor = time.Second

// Publish publishes to an exchange of ours. A message that is returned is published once more, with
// the topology declared anew.
func (s *Settler) Publish(ctx context.Context, msg broker.Publishing) error {
	return s.again(ctx, func() error { return s.out.Publish(ctx, msg) })
}

func (s *Settler) again(ctx context.Context, publish func() error) error {
	err := publish()
	if !errors.Is(err, broker.ErrReturned) {
		return err
	}
	if err := s.renew(ctx, declaredFor); err != nil {
		return err
	}
	return publish()
}

// Deliver publishes a message that is due to its destinations, and tells the Observer. apart is as
// in [broker.Publishing].
func (s *Settler) Deliver(ctx context.Context, m Message, apart string) error {
	dropped, err := s.deliver(ctx, m, apart)
	if dropped {
		s.Warn("a message is dropped: its exchange has no queue for it", "message", m.Envelope.ID, "exchange", m.Envelope.Exchange, "routing_key", m.Delivery.RoutingKey)
	}
	s.Tell(m, dropped, err)
	return err
}

// Tell tells the Observer of an attempt to deliver a message.
func (s *Settler) Tell(m Message, dropped bool, err error) {
	if delivered := s.Observer.Delivered; delivered != nil {
		delivered(delayer.DeliveryEvent{
			Backend: s.Backend, Exchange: m.Envelope.Exchange, Key: m.Delivery.RoutingKey,
			Lateness: time.Since(m.Envelope.Due), Err: err, Dropped: dropped,
		})
	}
}

// Delivery returns a message that is due as it is published: straight to its destination, the
// exchange that a consumer then sees and may answer to. A message that somebody has moved may have
// lost its routing key: then that is not where the stamp leads.
func (s *Settler) Delivery(m Message) broker.Publishing {
	exchange, key := m.Envelope.Exchange, m.Delivery.RoutingKey
	wait, _ := s.staged.Wait(exchange, time.Now())
	if wait > 0 || !slices.Contains(m.To, any(delivery.Key(exchange, key, message.Words(key)))) {
		return s.byStage(m)
	}
	return broker.Publishing{Exchange: exchange, Key: key, Direct: true, Message: m.publishing(s.User)}
}

// byStage returns it as it is published to the delivery stage, which leads to the destination, or
// keeps the message if that does not exist. It needs no permission to write to the destination.
func (s *Settler) byStage(m Message) broker.Publishing {
	msg := broker.Publishing{Exchange: s.Stage.Exchange(), Key: m.Delivery.RoutingKey, Message: m.publishing(s.User, m.To...)}
	if m.Envelope.Exchange != "" {
		msg.Exchange = s.Stage.Exchanges() // not through the discard queue, which would hide a return
	}
	return msg
}

// Undelivered reports whether a message must go by the stage, since its destination does not exist,
// or takes nothing from this user.
func Undelivered(err error) bool {
	code := broker.Code(err)
	return errors.Is(err, broker.ErrReturned) || code == amqp091.NotFound || code == amqp091.AccessRefused
}

// deliver: what is returned from an exchange of the user's has no queue there. It ends, as a plain
// publish would.
//
// By the stage, a message without a matching binding goes to the queue for unroutable messages. It is
// returned if the path to that queue is broken, and is stored nowhere; or if a binding led to an
// exchange of the user's, which has no queue for it: there it is dropped. That is so if, after the
// return, the user's exchange, the unroutable exchange and its queue are there, and the topology was
// declared in the second before. Otherwise the error stays.
func (s *Settler) deliver(ctx context.Context, m Message, apart string) (dropped bool, err error) {
	exchange, msg := m.Envelope.Exchange, s.Delivery(m)
	if msg.Apart = apart; msg.Direct {
		err = s.out.Publish(ctx, msg)
		switch {
		case !Undelivered(err):
			return false, err
		case !errors.Is(err, broker.ErrReturned):
			s.staged.Failed(exchange, time.Now())
		case exchange != "":
			return true, nil
		}
		msg = s.byStage(m)
		msg.Apart = apart
	}
	err = s.Publish(ctx, msg)
	if !errors.Is(err, broker.ErrReturned) || exchange == "" {
		return false, err
	}
	missing, unknown := s.missing(ctx, topology.Plan{
		Exchanges: []topology.Exchange{{Name: s.Stage.Unroutable(), Kind: amqp091.ExchangeFanout}, {Name: exchange, Kind: amqp091.ExchangeDirect}},
		Queues:    []topology.Queue{{Name: s.Stage.Misrouted()}},
	})
	switch {
	case unknown != nil:
		return false, unknown
	case len(missing) > 0:
		return false, err
	}
	return true, nil
}

// Keep publishes a foreign message unchanged to the unroutable queue, where an operator sees it, and
// logs why. Only its Expiration is removed.
//
// They are published one at a time: if one were returned, those that are alike would not be told
// apart (see [broker.Publishing]). They have a channel without others, which is closed if the
// exchange is gone.
func (s *Settler) Keep(ctx context.Context, d *amqp091.Delivery, why error) error {
	s.Warn("the controller got a foreign message; it is kept as unroutable",
		message.Attr(d), "error", why, "routing_key", d.RoutingKey, "queue", s.Stage.Unroutable())
	msg := broker.Publishing{Exchange: s.Stage.Keep(), Key: d.RoutingKey, Message: message.Again(d, s.User)}
	msg.Message.Expiration = ""
	return s.again(ctx, func() error {
		s.foreign.Lock()
		defer s.foreign.Unlock()
		err := s.out.PublishDirect(ctx, msg)
		if errors.Is(err, delayer.ErrUnknown) {
			s.doubt() // the exchange may be gone, which closes the channel
		}
		return err
	})
}

// Limits returns what both wheels can do, on queues that are replicated or not.
func Limits(replicated bool) delayer.Limits {
	return delayer.Limits{
		Max: Longest, Resolution: time.Millisecond,
		SurvivesRestart: replicated, SurvivesCrash: replicated, Replicated: replicated,
		ExactTopics: true,
		MaxPriority: engine.AnyPriority, // messages wait without it
	}
}

// DrainTimeout is for what is being published when a controller closes.
const DrainTimeout = 10 * time.Second

// leastHeartbeat: a controller notices that it stood still for five seconds. The broker, which waits
// for two heartbeats, must not have given its messages to another before.
const leastHeartbeat = 3 * time.Second

// A Session is a controller's at the broker. It consumes over one connection and delivers over
// another.
type Session struct {
	Settler
	In        *broker.Conn
	Control   *broker.Control // the engine's
	Publisher *broker.Publisher
	Keeper    *keeper.Keeper // of the topology
}

// Connect opens a session beside an engine. In may have so many channels at a time.
func Connect(ctx context.Context, s engine.Settings, e *engine.Engine, channels int) (*Session, error) {
	opts := s.BrokerOptions("controller")
	opts.Channels, opts.Heartbeat = channels, leastHeartbeat
	in, err := broker.Dial(ctx, opts)
	if err != nil {
		return nil, err
	}
	out, err := broker.Dial(ctx, s.BrokerOptions("controller publish").Opening(broker.PublisherChannels))
	if err != nil {
		in.Close()
		return nil, err
	}
	publisher := broker.NewPublisher(s.Backend, e.Keeper().Reconnected, out)
	return &Session{
		In: in, Control: e.Control(), Publisher: publisher, Keeper: e.Keeper(),
		Settler: Settler{
			Backend: s.Backend, Stage: s.Stage(), User: in.User(), Observer: s.Observer, Log: opts.Slog(),
			out: publisher, renew: e.Keeper().Renew, doubt: e.Keeper().Doubt, missing: objects.Of(e.Control(), s.Backend).Missing,
			staged: pace.Pauses[string]{First: time.Second, Longest: time.Minute},
		},
	}, nil
}

// Close waits for what is being published, and returns to the broker what was not. Whoever consumes
// must have been told to end.
func (s *Session) Close(running *sync.WaitGroup) {
	Wait(running, 2*DrainTimeout, s.In.Close) // that long the broker does not answer
	s.In.Close()
	s.Publisher.Close()
}

// Wait waits for what is running. After a while it makes that end.
func Wait(running *sync.WaitGroup, within time.Duration, end func()) {
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(within):
		end()
		<-done
	}
}

// Redeclare declares the topology again: a queue that was consumed may be gone.
func (s *Session) Redeclare(ctx context.Context) {
	if err := s.Keeper.Redeclare(ctx); err != nil && ctx.Err() == nil {
		s.Warn("the controller cannot declare its queues", "error", err)
	}
}
