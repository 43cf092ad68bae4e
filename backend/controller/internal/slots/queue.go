package slots

import (
	"fmt"
	"math"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// A queue is one that is consumed, on a channel of its own. Its tasks run one after the other.
type queue struct {
	tenure  *tenure
	slot    wheel.Slot
	name    string
	channel *amqp091.Channel // nil before it is open; written with mu held

	consumed bool // with mu held: the broker has answered

	upTo   uint64   // acknowledged, but not written yet: all up to this one
	single []uint64 // and these

	tag      string // of the consumer
	times    int    // that it was consumed
	prefetch int
	pumped   chan struct{} // closed when all of the last consumer has been taken
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods

// consume begins to consume, or does so with another prefetch. The former consumer is cancelled
// first, and all that it got is taken before anything of the next: so the order of the queue is
// kept.
func (q *queue) consume(prefetch int) error {
	if q.channel == nil {
		if err := q.open(); err != nil {
			return err
		}
	} else {
		if err := q.channel.Cancel(q.tag, waitForAnswer); err != nil {
			return err
		}
		<-q.pumped
	}
	const wholeChannel, noSize = false, 0
	if err := q.channel.Qos(granted(prefetch), noSize, wholeChannel); err != nil {
		return err
	}
	q.times++
	q.tag, q.prefetch, q.pumped = fmt.Sprintf("delayer.%d", q.times), prefetch, make(chan struct{})
	const autoAck, exclusive, noLocal = false, false, false
	messages, err := q.channel.Consume(q.name, q.tag, autoAck, exclusive, noLocal, waitForAnswer, nil)
	if err != nil {
		close(q.pumped)
		return err
	}
	q.tenure.mu.Lock()
	q.consumed = true
	q.tenure.mu.Unlock()
	pumped, consumer := q.pumped, q.times
	q.tenure.working.Go(func() {
		defer close(pumped)
		q.pump(messages, consumer)
	})
	return nil
}

// granted is what AMQP can say of a prefetch. A consumer that begins is given so many beside what
// is in hand: more than any slot lacks.
func granted(prefetch int) int { return min(prefetch, math.MaxUint16) }

// open opens the channel, and ends the tenure when it is lost.
func (q *queue) open() error {
	channel, err := q.tenure.session.In.Channel(q.tenure.ctx)
	if err != nil {
		return err
	}
	if q.slot == wheel.Intake {
		if err := q.tenure.stand(channel); err != nil {
			return err
		}
	}
	closed, cancelled := channel.NotifyClose(make(chan *amqp091.Error, 1)), channel.NotifyCancel(make(chan string, 1))
	go func() {
		select {
		case err := <-closed:
			if err != nil {
				q.tenure.end(fmt.Errorf("queue %s: %w", q.name, err))
			}
		case _, is := <-cancelled:
			if is {
				q.tenure.end(fmt.Errorf("queue %s: %w", q.name, broker.ErrConsumerEnded))
			}
		}
	}()
	q.tenure.mu.Lock()
	q.channel = channel
	q.tenure.mu.Unlock()
	return nil
}

// mostAtOnce is how many deliveries are taken together.
const mostAtOnce = 64

// pump takes the deliveries of a consumer.
func (q *queue) pump(messages <-chan amqp091.Delivery, consumer int) {
	batch := make([]*carried, 0, mostAtOnce)
	for d := range messages {
		batch = append(batch[:0], read(&d))
		for more := true; more && len(batch) < mostAtOnce; {
			select {
			case d, is := <-messages:
				if more = is; is {
					batch = append(batch, read(&d))
				}
			default:
				more = false
			}
		}
		q.tenure.happened(func(now wheel.Now) {
			if q.tenure.queues[q.slot] != q {
				return // it was released
			}
			for _, c := range batch {
				c.wheel.Consumer = consumer
				q.tenure.machine.Delivered(now, q.slot, c.tag, &c.wheel)
			}
		})
	}
}

// acknowledge writes what is acknowledged. The caller holds mu. It fails only if the channel is
// lost. The single ones come first: the broker closes a channel that acknowledges one twice.
func (q *queue) acknowledge() {
	const multiple = true
	for _, tag := range q.single {
		_ = q.channel.Ack(tag, !multiple)
	}
	if q.upTo > 0 {
		_ = q.channel.Ack(q.upTo, multiple)
	}
	q.upTo, q.single = 0, q.single[:0]
}

// release ends the consumer. What is not acknowledged goes back, in the same step in which another
// is active.
func (q *queue) release() {
	if q.channel != nil && broker.EndActive(q.channel, q.name) {
		q.tenure.mu.Lock()
		q.tenure.released[q.slot] = time.Now()
		q.tenure.mu.Unlock()
	}
}

func (q *queue) verify() error {
	const wholeChannel, noSize = false, 0
	return q.channel.Qos(max(1, granted(q.prefetch)), noSize, wholeChannel) // for consumers to come
}
