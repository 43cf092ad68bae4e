package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/keeper"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

const (
	proofTimeout = 20 * time.Second // for one that a message needs
	askEvery     = 10 * time.Second // between two proofs of connections that have passed
	lookAgain    = 20 * time.Millisecond
)

// A prover proves that connections and queues hide messages. The same questions tell what time it
// is at each queue: one that was hidden shows that its clock had not reached the question's time,
// and one that was not that it had.
type prover struct {
	names
	settings engine.Settings
	keeper   *keeper.Keeper
	control  *broker.Control
	conns    func() []*amqp091.Connection
	log      *slog.Logger
	warnings pace.Warnings

	turn   chan struct{} // held by who uses the next four
	back   broker.Returns
	clocks []*brokertime.Interval // one a queue; each may be read without the turn
	dated  []time.Time            // about what the clock of a queue's node shows, where more is not known
	bound  []*gate                // those that are not unbound, the last one last
	every  []int                  // the queues

	mu     sync.Mutex
	now    *gate                        // nil: to be made
	resets int                          // how often it was given up
	failed error                        // of the last proof; nil: it passed
	told   map[*amqp091.Connection]bool // that it has passed

	wake    pace.Signal // of run
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newProver(s *strategy, e *engine.Engine, settings engine.Settings) *prover {
	p := &prover{
		names: s.names, settings: settings, keeper: e.Keeper(), control: e.Control(), conns: e.Publisher().Connections,
		log: settings.BrokerOptions("").Slog().With("backend", Name), turn: make(chan struct{}, 1), wake: pace.NewSignal(),
		dated: make([]time.Time, s.queues), told: map[*amqp091.Connection]bool{},
		back: broker.Returns{Control: e.Control(), Name: settings.Prefix + ".clock.proof", Exchange: s.stage.Exchange()},
	}
	for queue := range s.queues {
		p.every = append(p.every, queue)
		p.clocks = append(p.clocks, brokertime.NewInterval())
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// open proves all connections, and goes on to do so.
func (p *prover) open(ctx context.Context) error {
	g, err := p.gate(ctx)
	if err != nil {
		return err
	}
	for _, conn := range p.conns() {
		if err := p.take(ctx); err != nil {
			return broker.Explain("open", Name, "", err)
		}
		if err := p.judge(ctx, proofTimeout, g, conn, all, p.every...); errors.Is(err, errIgnored) {
			return lacking(err)
		} else if err != nil {
			return &delayer.Error{Op: "open", Backend: Name, Kind: delayer.ErrUnavailable, Cause: err, Hint: "try again; the broker's log may say more"}
		}
	}
	p.running.Go(p.run)
	return nil
}

// close is called once nothing is published any more.
func (p *prover) close() {
	p.cancel()
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if p.take(ctx) == nil {
		p.unbind(ctx, 0)
		p.give()
	}
	p.running.Wait() // the connections that publish are closed
}

func (p *prover) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *prover) give() { <-p.turn }

// reset makes the next message need a new gate.
func (p *prover) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = nil
	p.resets++
}

func (p *prover) current() (g *gate, resets int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.resets
}

// gate returns the gate, and makes a new one if there is none. The last one stays bound meanwhile, for
// messages that are on their way.
func (p *prover) gate(ctx context.Context) (*gate, error) {
	if g, _ := p.current(); g != nil {
		return g, nil
	}
	if err := p.take(ctx); err != nil {
		return nil, broker.Explain("publish", Name, "", err)
	}
	defer p.give()
	g, resets := p.current()
	if g != nil {
		return g, nil
	}
	p.unbind(ctx, 1)
	p.back.Ended() // what it was bound to may be gone
	g = newGate(len(p.clocks))
	g.prover = p
	p.bound = append(p.bound, g)
	err := p.control.Do(ctx, func(ch *amqp091.Channel) error {
		for _, b := range g.bindings(p.names) {
			if err := objects.Bind(ch, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, broker.Explain("publish", Name, "", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resets == resets {
		p.now = g
	}
	return g, nil
}

// unbind removes the bindings of all gates but the last few. It may fail: they do no harm.
func (p *prover) unbind(ctx context.Context, keep int) {
	old := p.bound[:max(0, len(p.bound)-keep)]
	p.bound = slices.Clone(p.bound[len(old):])
	if len(old) == 0 {
		return
	}
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
			p.mu.Lock()
			cause := fmt.Errorf("the time at queue %s is not known: %w", p.wait(queue), cmp.Or(p.failed, context.Cause(ctx)))
			p.mu.Unlock()
			return 0, &delayer.Error{Op: "publish", Backend: Name, Kind: delayer.ErrNotSent, Cause: cause}
		case <-p.ctx.Done():
			return 0, &delayer.Error{Op: "publish", Backend: Name, Kind: delayer.ErrClosed}
		}
	}
}

// run proves one connection after the other again.
func (p *prover) run() {
	for next := 0; ; next++ {
		pause := time.NewTimer(pace.Jitter(askEvery))
		select {
		case <-p.ctx.Done():
			pause.Stop()
			return
		case <-p.wake:
			pause.Stop()
		case <-pause.C:
		}
		conns := p.conns()
		g, _ := p.current()
		if len(conns) == 0 || g == nil || p.take(p.ctx) != nil {
			_ = pace.Sleep(p.ctx, lookAgain)
			continue
		}
		const patience = 3 * time.Second // others need the turn
		if p.judge(p.ctx, patience, g, conns[next%len(conns)], all, p.every...) != nil {
			_ = pace.Sleep(p.ctx, failAgain)
		}
	}
}

// all is enough for a whole proof.
func all(a *asking) bool {
	return !slices.ContainsFunc(a.ladders, func(l ladder) bool { return !l.proved || !l.done })
}

// judge makes a proof for some queues, and tells of it. The caller has the turn, which judge gives
// back: later, if ctx ends while the connection takes nothing, since amqp091-go's calls take no
// context.
func (p *prover) judge(ctx context.Context, most time.Duration, g *gate, conn *amqp091.Connection, enough func(*asking) bool, queues ...int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("the broker has not answered within %v", most))
	done := make(chan error, 1)
	p.running.Go(func() {
		defer cancel()
		defer p.give()
		done <- p.tell(g, conn, p.prove(ctx, g, conn, enough), queues)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tell notes what a proof has said of a connection.
func (p *prover) tell(g *gate, conn *amqp091.Connection, err error, queues []int) error {
	switch {
	case err != nil && p.ctx.Err() != nil:
		return &delayer.Error{Op: "publish", Backend: Name, Kind: delayer.ErrClosed}
	case err != nil && conn.IsClosed():
		return err
	}
	version, _ := conn.Properties["version"].(string)
	at := []any{"connection", conn.LocalAddr().String(), "broker", conn.RemoteAddr().String(), "version", version}
	if err != nil {
		err = fmt.Errorf("RabbitMQ %s at %v: %w", version, conn.RemoteAddr(), err)
		if !g.fail(conn, err, queues...) { // a destination may hold up its waiting queue: that is no news
			return err
		}
		p.warnings.Warn(p.log, "it is not proved that the broker hides messages until they are due", append(at, "error", err)...)
	}
	p.mu.Lock()
	told := p.told[conn]
	p.failed, p.told[conn] = err, err == nil
	maps.DeleteFunc(p.told, func(conn *amqp091.Connection, _ bool) bool { return conn.IsClosed() })
	p.mu.Unlock()
	if err == nil && !told {
		p.log.Info("proved that the broker hides messages until they are due", at...)
	}
	if p.settings.Observer.Proved != nil {
		p.settings.Observer.Proved(delayer.ProofEvent{Backend: Name, Err: err})
	}
	if errors.Is(err, broker.ErrReturned) {
		p.keeper.Doubt()
	}
	return err
}

// errIgnored is in the chain of the error of a queue that does not hide.
var errIgnored = errors.New("a message that must wait in queue")
