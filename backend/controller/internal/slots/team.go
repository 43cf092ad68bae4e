package slots

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// A team is the controllers of a process, one for each shard. They share the clock. Each has its
// own connections, so that one whose memory is full, and which does not read, stops no other.
type team struct {
	of []*controller

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startAll starts a controller for each shard. After an error none runs.
func startAll(ctx context.Context, w *Wheel, s engine.Settings, e *engine.Engine, knows *clock) (*team, error) {
	running, cancel := context.WithCancel(context.Background())
	t := &team{cancel: cancel}
	for _, n := range w.names.all() {
		gate := broker.NewGate()
		session, err := settle.Connect(ctx, s, e, gate)
		if err != nil {
			t.close()
			return nil, err
		}
		c := &controller{wheel: w, names: n, session: session, gate: gate, clock: knows}
		c.running.Go(func() { c.run(running) })
		t.of = append(t.of, c)
	}
	if len(t.of) > 1 {
		t.running.Go(func() { t.share(running) })
	}
	return t, nil
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (t *team) close() {
	t.cancel()
	for _, c := range t.of {
		t.running.Go(func() { c.session.Close(&c.running) })
	}
	t.running.Wait()
}

// lookEvery is how often a process looks whether it leads more than its share.
const lookEvery = 3 * time.Second

// share hands shards over to other processes, one after the other, while this one leads more than
// its share: otherwise the process that was started first would lead them all. Who has waited for a
// shard for the longest gets it, and hands it on if that is too much for it.
func (t *team) share(ctx context.Context) {
	var leads seniority
	for {
		select {
		case <-time.After(lookEvery/2 + rand.N(lookEvery)):
		case <-ctx.Done():
			return
		}
		serving := make([]*tenure, len(t.of))
		for shard, c := range t.of {
			serving[shard] = c.serving.Load()
		}
		leads.note(len(serving), func(shard int) bool { return serving[shard] != nil && serving[shard].leads() })
		if len(leads) < 2 {
			continue
		}
		newest := serving[leads.newest()]
		candidates, err := newest.session.Control.Queue(ctx, newest.names.candidates())
		if err == nil && len(leads) > fair(len(serving), candidates.Consumers) {
			newest.handOver()
		}
	}
}

// fair is how many shards one of so many processes leads. None is counted by a broker that takes
// too long.
func fair(shards, processes int) int {
	processes = max(1, processes)
	return (shards + processes - 1) / processes
}

// A seniority lists the shards that a process leads, those first that it has led for the longest.
// The newest is handed over: a shard that nobody has room for then goes round all processes until
// one has, and those that are settled stay.
type seniority []int

func (s *seniority) note(shards int, leads func(shard int) bool) {
	*s = slices.DeleteFunc(*s, func(shard int) bool { return !leads(shard) })
	for shard := range shards {
		if leads(shard) && !slices.Contains(*s, shard) {
			*s = append(*s, shard)
		}
	}
}

func (s seniority) newest() int { return s[len(s)-1] }

var errHandedOver = errors.New("another process leads this shard")

// stand makes this tenure one of the candidates that are counted, for as long as the channel lasts.
// A broker does not count the consumers of the intake: of a quorum queue with a single active
// consumer it tells that one only.
func (t *tenure) stand(channel *amqp091.Channel) error {
	const one, noSize, wholeChannel = 1, 0, false
	if err := channel.Qos(one, noSize, wholeChannel); err != nil {
		return err
	}
	const autoAck, exclusive, noLocal = false, false, false
	_, err := channel.Consume(t.names.candidates(), "", autoAck, exclusive, noLocal, waitForAnswer, nil)
	return err
}

// leads reports whether this tenure turns its wheel.
func (t *tenure) leads() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.machine.Leads()
}

// handOver lets the next candidate lead. The next tenure here waits behind all others.
func (t *tenure) handOver() {
	t.session.Log.Info("the controller hands a shard over, since other processes lead fewer", "shard", t.names.shard)
	t.end(errHandedOver)
}
