package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

const (
	askEvery     = 10 * time.Second // between two proofs that no message needs
	askFor       = 3 * time.Second  // one of these: messages that need one wait for their turn
	proofTimeout = 20 * time.Second // for one that messages need
	lookAgain    = 50 * time.Millisecond
)

// A prover has proofs made, one after the other, and keeps what they have shown. The same questions
// tell what time it is at each queue.
type prover struct {
	names
	clocks []*brokertime.Interval // one a queue

	// These are set by start.
	settings engine.Settings
	keeper   *keeper.Keeper
	control  *broker.Control
	conns    func() []*amqp091.Connection
	log      *slog.Logger

	wants   chan want
	wake    pace.Signal // the time at a queue is not known
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	// These are run's.
	back     broker.Returns
	bound    []*gate // those that are not unbound, the last one last
	warnings pace.Warnings

	mu  sync.Mutex
	now *gate // nil: to be made
}

// A want is a proof that is wanted: of one queue, for its messages, or of all and their clocks.
type want struct {
	gate  *gate
	conn  *amqp091.Connection
	queue int // -1: all
	most  time.Duration
	done  chan error
}

// whole is the queue of a want of all.
const whole = -1

// met reports whether messages to the queue may be written, or why they fail.
func (w want) met() (met bool, err error) {
	if w.queue == whole {
		return false, nil
	}
	return w.gate.known(w.conn, w.queue)
}

func newProver(n names, queues int) *prover {
	p := &prover{names: n, wants: make(chan want), wake: pace.NewSignal()}
	for range queues {
		p.clocks = append(p.clocks, brokertime.NewInterval())
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// start proves all connections, and goes on to do so.
func (p *prover) start(ctx context.Context, e *engine.Engine, settings engine.Settings) error {
	p.settings, p.log = settings, settings.BrokerOptions("").Slog().With("backend", Name)
	p.keeper, p.control, p.conns = e.Keeper(), e.Control(), e.Publisher().Connections
	p.back = broker.Returns{
		Control: p.control, Name: p.prefix + ".clock.proof", Exchange: p.stage.Exchange(),
	}
	p.running.Go(p.run)
	for _, conn := range p.conns() {
		err := p.want(ctx, want{gate: p.gate(), conn: conn, queue: whole, most: proofTimeout})
		switch {
		case errors.Is(err, errIgnored):
			return lacking(err)
		case err != nil:
			return &delayer.Error{
				Op: "open", Backend: Name, Kind: delayer.ErrUnavailable, Cause: err,
				Hint: "try again; the broker's log may say more",
			}
		}
	}
	return nil
}

// close is called once the connections that publish are closed.
func (p *prover) close() {
	p.cancel()
	p.running.Wait()
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.unbind(ctx, 0)
}

// gate returns the gate of new messages.
func (p *prover) gate() *gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		p.now = newGate(p, len(p.clocks))
	}
	return p.now
}

// reset makes the next message have a new gate.
func (p *prover) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = nil
}

// due returns when a message is due by the clock of a queue, in ms since 1970, rounded up. It waits
// until that is known.
func (p *prover) due(ctx context.Context, queue int, m engine.Wait) (int64, error) {
	for {
		if at, ok := p.clocks[queue].At(m.Due, m.Due.Add(-m.Delay)); ok {
			return at.Add(time.Millisecond - 1).UnixMilli(), nil
		}
		p.wake.Set()
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			cause := fmt.Errorf("the time at queue %s is not known, the log says why: %w",
				p.wait(queue), context.Cause(ctx))
			return 0, &delayer.Error{Op: "publish", Backend: Name, Kind: delayer.ErrNotSent, Cause: cause}
		case <-p.ctx.Done():
			return 0, &delayer.Error{Op: "publish", Backend: Name, Kind: delayer.ErrClosed}
		}
	}
}

// want waits for a proof.
func (p *prover) want(ctx context.Context, w want) error {
	w.done = make(chan error, 1)
	select {
	case p.wants <- w:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run has the proofs made that are wanted, and proves one connection after the other again.
func (p *prover) run() {
	every := time.NewTicker(pace.Jitter(askEvery))
	defer every.Stop()
	for next := 0; ; {
		select {
		case <-p.ctx.Done():
			return
		case w := <-p.wants:
			met, err := w.met()
			if !met {
				err = p.prove(w)
			}
			w.done <- err
			continue
		case <-p.wake:
		case <-every.C:
		}
		if conns := p.conns(); len(conns) > 0 {
			next++
			_ = p.prove(want{gate: p.gate(), conn: conns[next%len(conns)], queue: whole, most: askFor})
		}
	}
}

// prove makes a proof, and tells of it.
func (p *prover) prove(w want) error {
	silent := fmt.Errorf("the broker has not answered within %v", w.most)
	ctx, cancel := context.WithTimeoutCause(p.ctx, w.most, silent)
	defer cancel()
	err := p.ask(ctx, w)
	gone := errors.Is(err, broker.ErrReturned) || broker.Code(err) == amqp091.NotFound
	if gone && w.gate == p.gate() { // else there is another one for that already
		p.keeper.Doubt()
	}
	if err != nil {
		if w.conn.IsClosed() || p.ctx.Err() != nil { // that says nothing of the broker
			return err
		}
		err = fmt.Errorf("RabbitMQ %v at %v: %w", w.conn.Properties["version"], w.conn.RemoteAddr(), err)
		if !w.gate.fail(w.conn, err) { // a destination may hold up its waiting queue: that is no news
			return err
		}
		p.warnings.Warn(p.log, "it is not proved that the broker hides messages until they are due",
			append(about(w.conn), "error", err)...)
	}
	if p.settings.Observer.Proved != nil {
		p.settings.Observer.Proved(delayer.ProofEvent{Backend: Name, Err: err})
	}
	return err
}

// about is what a line in the log says of a connection.
func about(conn *amqp091.Connection) []any {
	return []any{
		"connection", conn.LocalAddr().String(), "broker", conn.RemoteAddr().String(),
		"version", conn.Properties["version"],
	}
}

// ask asks each queue by a connection until that is enough.
func (p *prover) ask(ctx context.Context, w want) error {
	if err := p.bind(ctx, w.gate); err != nil {
		return err
	}
	if err := p.back.Open(ctx); err != nil {
		return err
	}
	ch, err := w.conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close() //nolint:errcheck // fails only if it is closed already

	const most = 8 // messages to a queue in a round; with less room returns would hold up the connection
	returns := ch.NotifyReturn(make(chan amqp091.Return, most*len(p.clocks)))
	closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
	a := &asking{names: p.names, log: p.log, clocks: p.clocks, gate: w.gate, conn: w.conn}
	a.publish = func(queue int, e message.Envelope, hidden amqp091.Table) error {
		const mandatory, immediate = true, false
		msg := amqp091.Publishing{DeliveryMode: amqp091.Transient}
		msg = message.Seal(msg, e, hidden, p.back.Queue(), forgottenKey)
		return ch.Publish(p.enter(), w.gate.keys[queue], mandatory, immediate, msg)
	}
	err = a.begin()
	for err == nil && !a.settled() {
		if met, _ := w.met(); met {
			return nil
		}
		select {
		case d, ok := <-p.back.Messages():
			if !ok {
				p.back.Ended()
				return amqp091.ErrClosed
			}
			err = a.came(&d)
		case <-returns:
			return fmt.Errorf("%w: a waiting queue was deleted", broker.ErrReturned)
		case err := <-closed:
			if err != nil {
				return err
			}
			return amqp091.ErrClosed
		case <-ctx.Done():
			p.back.Ended() // it may not be bound any more
			return context.Cause(ctx)
		}
	}
	return cmp.Or(err, a.err())
}

// bind binds a gate unless it is bound. The last one stays bound for messages on their way.
func (p *prover) bind(ctx context.Context, g *gate) error {
	if g.bound {
		return nil
	}
	p.back.Ended() // what it was bound to may be gone
	p.unbind(ctx, 1)
	p.bound = append(p.bound, g)
	err := objects.Of(p.control, Name).Restore(ctx, topology.Plan{Bindings: g.bindings(p.names)})
	g.bound = err == nil
	return err
}

// unbind removes the bindings of all gates but the last few. It may fail: they do no harm.
func (p *prover) unbind(ctx context.Context, keep int) {
	old := p.bound[:max(0, len(p.bound)-keep)]
	p.bound = slices.Clone(p.bound[len(old):])
	_ = p.control.Do(ctx, func(ch *amqp091.Channel) error {
		for _, g := range old {
			for _, b := range g.bindings(p.names) {
				if err := ch.QueueUnbind(b.Target, b.Key, b.Source, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
