package slots

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

type controller struct {
	wheel   *Wheel
	session *settle.Session
	gate    *broker.Gate
	clock   *clock
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func start(ctx context.Context, w *Wheel, s engine.Settings, e *engine.Engine, knows *clock) (*controller, error) {
	gate := broker.NewGate()
	session, err := settle.Connect(ctx, s, e, gate, len(wheel.Default().Slots())+1)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	c := &controller{wheel: w, session: session, gate: gate, clock: knows, cancel: cancel}
	c.running.Go(func() { c.run(running) })
	return c, nil
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (c *controller) close() {
	c.cancel()
	c.session.Close(&c.running)
}

const (
	firstPause   = 100 * time.Millisecond // between two tenures
	longestPause = 5 * time.Second
)

func (c *controller) run(ctx context.Context) {
	pause := firstPause
	for {
		began := time.Now()
		err := c.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		c.session.Log.Warn("the controller has lost its queues; it takes them again", "error", err)
		c.session.Redeclare(ctx)
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, longestPause)
	}
}

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
