package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
)

const (
	proofTimeout = 20 * time.Second // for one proof
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

	mu     sync.Mutex
	now    *gate // nil: to be made
	resets int   // how often it was given up
	failed error // of the last proof; nil: it passed

	wake    pace.Signal // of run
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func newProver(s *strategy, e *engine.Engine, settings engine.Settings) *prover {
	p := &prover{
		names: s.names, settings: settings, keeper: e.Keeper(), control: e.Control(), conns: e.Publisher().Connections,
		log: settings.BrokerOptions("").Slog().With("backend", Name), turn: make(chan struct{}, 1), wake: pace.NewSignal(),
		dated: make([]time.Time, s.queues),
		back:  broker.Returns{Control: e.Control(), Name: settings.Prefix + ".clock.proof", Exchange: s.stage.Exchange()},
	}
	for range s.queues {
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
		if err := g.Prove(ctx, conn); errors.Is(err, errIgnored) {
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
		if p.judge(p.ctx, g, conns[next%len(conns)]) != nil {
			_ = pace.Sleep(p.ctx, failAgain)
		}
	}
}

// judge proves a connection, and tells of it. The caller has the turn, which judge gives back: later,
// if ctx ends while the connection takes nothing, since amqp091-go's calls take no context.
func (p *prover) judge(ctx context.Context, g *gate, conn *amqp091.Connection) error {
	ctx, cancel := context.WithTimeoutCause(ctx, proofTimeout, errSilent)
	done := make(chan error, 1)
	p.running.Go(func() {
		defer cancel()
		defer p.give()
		done <- p.tell(g, conn, p.prove(ctx, g, conn))
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tell notes what a proof has said of a connection.
func (p *prover) tell(g *gate, conn *amqp091.Connection, err error) error {
	if err != nil && p.ctx.Err() != nil {
		return &delayer.Error{Op: "publish", Backend: Name, Kind: delayer.ErrClosed}
	}
	version, _ := conn.Properties["version"].(string)
	if err != nil {
		err = fmt.Errorf("RabbitMQ %s at %v: %w", version, conn.RemoteAddr(), err)
	}
	known, before := g.Known(conn)
	g.judged(conn, err)
	if p.settings.Observer.Proved != nil {
		p.settings.Observer.Proved(delayer.ProofEvent{Backend: Name, Err: err})
	}
	p.mu.Lock()
	p.failed = err
	p.mu.Unlock()
	at := []any{"connection", conn.LocalAddr().String(), "broker", conn.RemoteAddr().String(), "version", version}
	switch {
	case err != nil:
		p.warnings.Warn(p.log, "nothing with a delay is published to a connection: it is not proved that the broker hides messages until they are due", append(at, "error", err)...)
	case !known || before != nil:
		p.log.Info("proved that the broker hides messages until they are due", at...)
	}
	if errors.Is(err, broker.ErrReturned) {
		p.keeper.Doubt()
	}
	return err
}

var (
	errIgnored = errors.New("a message that must wait in queue")
	errOrder   = errors.New("a node fails, or a queue has another leader")
	errSilent  = fmt.Errorf("the broker has not answered within %v", proofTimeout)
)

// ignored is the error of a queue that does not hide.
func (p *prover) ignored(queue int) error {
	return fmt.Errorf("%w %s was delivered at once: this node, or a member of that queue, is older than RabbitMQ 4.4 "+
		"(rabbitmq-queues quorum_status must show machine version 9); or the clock of its leader is hours ahead", errIgnored, p.wait(queue))
}

// prove proves that the node of a connection and each queue hide messages. It narrows what is known
// of the clock of each queue until that is known to milliseconds. The caller has the turn.
func (p *prover) prove(ctx context.Context, g *gate, conn *amqp091.Connection) error {
	if err := p.back.Open(ctx); err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close() //nolint:errcheck // fails only if it is closed already
	const most = 16  // messages to a queue in a round: with less room, what is returned would hold up the connection
	a := &asking{
		prover: p, gate: g, ch: ch,
		returns: ch.NotifyReturn(make(chan amqp091.Return, most*len(p.clocks))), closed: ch.NotifyClose(make(chan *amqp091.Error, 1)),
		ladders: make([]ladder, len(p.clocks)), sent: map[string]question{},
	}
	const mostRounds, narrowing = 24, 10 // a slow network may not tell it any better
	for i := range mostRounds {
		a.content = i >= narrowing
		done, err := a.round(ctx)
		if err != nil || done {
			return err
		}
	}
	return errors.New("its clock cannot be learned")
}

// An asking is one proof.
type asking struct {
	*prover
	gate    *gate
	ch      *amqp091.Channel
	returns <-chan amqp091.Return
	closed  <-chan *amqp091.Error

	content bool                // with what is known of the clocks
	ladders []ladder            // one a queue
	sent    map[string]question // of this round, by the content of our header
}

// A question is a message with a time, or the marker, which is the last of its queue.
type question struct {
	queue int
	at    int // index into the times of its ladder
}

// A ladder is the questions to one queue in one round.
type ladder struct {
	times  []time.Time // ascending
	sent   brokertime.Moment
	asked  bool // the marker has come back
	passed int  // how many questions had come back before it: they were not hidden, or not long
	proved bool // one that was hidden has come back too
	reach  int  // how often none was hidden: index into reaches
}

// reaches are how far ahead of a clock the last question looks. A broker that is slow has not taken
// it before its time, and a clock may be ahead of what was thought. Beyond the last one it is a
// broker that hides nothing.
var reaches = [...]time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 10 * time.Minute, 2 * time.Hour}

// round asks each queue once. done: all are proved, and all clocks are known.
func (a *asking) round(ctx context.Context) (done bool, err error) {
	clear(a.sent)
	for queue := range a.ladders {
		if err := a.ask(queue); err != nil {
			return false, err
		}
	}
	if err := a.await(ctx, func(l *ladder) bool { return l.asked }); err != nil {
		return false, err
	}
	fine := true
	for queue := range a.ladders {
		l := &a.ladders[queue]
		if l.passed == len(l.times) && l.passed > 0 {
			if l.reach++; l.reach == len(reaches) {
				return false, a.ignored(queue)
			}
		}
		_, ok := a.clocks[queue].Read()
		fine = fine && l.passed < len(l.times) && (a.fine(queue) || ok && a.content)
	}
	if !fine {
		return false, nil
	}
	return true, a.await(ctx, func(l *ladder) bool { return l.proved })
}

// fine reports whether the clock of a queue is known as well as the way to it allows.
func (p *prover) fine(queue int) bool {
	r, ok := p.clocks[queue].Read()
	return ok && r.Latest.Sub(r.Earliest) <= 2*time.Millisecond+p.clocks[queue].RoundTrip()*3/2
}

// ask publishes questions and the marker to a queue.
func (a *asking) ask(queue int) error {
	l := &a.ladders[queue]
	*l = ladder{times: a.times(queue, l.reach), reach: l.reach, sent: a.clocks[queue].Now()}
	for at := range len(l.times) + 1 {
		e := message.NewEnvelope(time.Now(), 0, "")
		a.sent[e.String()] = question{queue, at}
		var hidden amqp091.Table
		if at < len(l.times) {
			hidden = amqp091.Table{message.NativeDelay: l.times[at].UnixMilli()}
		}
		msg := message.Seal(amqp091.Publishing{DeliveryMode: amqp091.Transient}, e, hidden, a.back.Queue(), forgottenKey)
		const mandatory, immediate = true, false
		if err := a.ch.Publish(a.enter(), a.gate.keys[queue], mandatory, immediate, msg); err != nil {
			return err
		}
	}
	return nil
}

// times are those of the questions to a queue, ascending, in whole milliseconds.
func (p *prover) times(queue, reach int) []time.Time {
	clock := p.clocks[queue]
	r, _ := clock.Read()
	from := r.Earliest
	var offsets []time.Duration // of from
	if known(r.Earliest) && known(r.Latest) {
		from = from.Add(-time.Millisecond)
		width := r.Latest.Add(time.Millisecond + clock.RoundTrip()/2).Sub(from) // the queue gets them later than they are sent
		steps := 5
		if p.fine(queue) {
			steps = 3
		}
		for i := range steps {
			offsets = append(offsets, width*time.Duration(i)/time.Duration(steps))
		}
		offsets = append(offsets, width, width+reaches[reach])
	} else { // nothing is known, or one end of it
		switch {
		case known(r.Latest):
			from = r.Latest
		case known(from):
		case p.dated[queue].IsZero():
			return nil // the marker tells
		default:
			from = p.dated[queue].Add(2 * time.Second)
		}
		offsets = append(offsets, -24*time.Hour, -2*time.Hour, -time.Minute, -4*time.Second, -2*time.Second, -time.Second, -time.Second/2, 0)
		offsets = append(offsets, reaches[:reach+1]...)
	}
	times := make([]time.Time, len(offsets))
	for i, offset := range offsets {
		times[i] = time.UnixMilli(from.Add(offset + time.Millisecond - 1).UnixMilli())
	}
	return slices.Compact(times)
}

// never and always are what a clock shows neither now nor soon: nothing is known of that side.
var never, always = time.UnixMilli(math.MaxInt64 / int64(2*time.Millisecond)), time.Unix(0, 0)

func known(t time.Time) bool {
	const century = 100 * 365 * 24 * time.Hour
	return t.Sub(always) > 20*365*24*time.Hour && t.Sub(always) < century
}

// await takes what comes back until it is enough for each queue.
func (a *asking) await(ctx context.Context, enough func(*ladder) bool) error {
	for slices.ContainsFunc(a.ladders, func(l ladder) bool { return !enough(&l) }) {
		select {
		case d, ok := <-a.back.Messages():
			if !ok {
				a.back.Ended()
				return amqp091.ErrClosed
			}
			if err := a.came(&d); err != nil {
				return err
			}
		case <-a.returns:
			return fmt.Errorf("%w: a waiting queue was deleted", broker.ErrReturned)
		case err := <-a.closed:
			if err == nil {
				return amqp091.ErrClosed
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// came takes a message that has come back.
func (a *asking) came(d *amqp091.Delivery) error {
	header, _ := d.Headers[delayer.Header].(string)
	q, ours := a.sent[header]
	delete(a.sent, header) // it may come twice
	if !ours {
		return nil // of another round
	}
	l, clock := &a.ladders[q.queue], a.clocks[q.queue]
	if q.at < len(l.times) { // with a time: before it, as far as is known?
		if r, ok := clock.Read(); ok && r.Latest.Before(l.times[q.at]) {
			return a.ignored(q.queue)
		}
	}
	switch {
	case q.at < len(l.times) && !l.asked: // one that was hidden for a millisecond may overtake those before it
		l.passed++
	case q.at < len(l.times):
		if q.at < l.passed { // so a later one has come before the marker
			return fmt.Errorf("%w: what waits in queue %s comes in another order", errOrder, a.wait(q.queue))
		}
		l.proved = true
	default:
		l.asked = true
		a.learn(q.queue, d)
	}
	return nil
}

// learn learns the time from a marker that has come back.
func (a *asking) learn(queue int, d *amqp091.Delivery) {
	l, received := &a.ladders[queue], a.clocks[queue].Now()
	if len(l.times) == 0 {
		a.dated[queue] = message.LastDeath(d.Headers)
		return
	}
	from, to := always, never
	if l.passed > 0 {
		from = l.times[l.passed-1]
	}
	if l.passed < len(l.times) {
		to = l.times[l.passed]
	}
	if by := a.clocks[queue].Learn(l.sent, received, from, to); by != 0 {
		a.log.Warn("the clock of a queue does not agree with what was known: was it set, or does another node lead the queue? Asking anew",
			"queue", a.wait(queue), "ahead", by.Round(time.Millisecond))
	}
}
