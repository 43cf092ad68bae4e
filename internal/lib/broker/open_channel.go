package broker

import (
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// An openChannel is one AMQP channel of a publisherChannel, with its returns and the cause of its
// end.
type openChannel struct {
	ch        *amqp091.Channel
	gathering gathering     // used by the goroutine that writes
	closed    chan struct{} // closed once ch is, and cause is known

	returns chan amqp091.Return

	opened    time.Time
	sent      atomic.Int64 // messages, ever,
	done      atomic.Int64 // and those of them that are confirmed, or will never be
	pending   sync.WaitGroup
	replacing sync.Once
	renew     chan struct{} // closed when another channel is to take its place

	mu      sync.Mutex
	waiting map[string]amqp091.Return // returned, not yet asked for; by delayer.Header
	cause   error
}

func newOpenChannel(ch *amqp091.Channel, socket *wire, window int) *openChannel {
	o := &openChannel{
		ch: ch, gathering: newGathering(socket),
		closed:  make(chan struct{}),
		opened:  time.Now(),
		renew:   make(chan struct{}),
		returns: ch.NotifyReturn(make(chan amqp091.Return, window)),
		waiting: map[string]amqp091.Return{},
	}
	notify := ch.NotifyClose(make(chan *amqp091.Error, 1))
	go func() {
		o.cause = amqp091.ErrClosed
		if err := <-notify; err != nil {
			o.cause = err
		}
		close(o.closed)
	}()
	return o
}

// begin counts a message, settled notes that it is confirmed, or will never be.
func (o *openChannel) begin() {
	o.pending.Add(1)
	o.sent.Add(1)
}

func (o *openChannel) settled() {
	o.done.Add(1)
	o.pending.Done()
}

// unconfirmed is how many messages have no confirm yet.
func (o *openChannel) unconfirmed() int64 { return o.sent.Load() - o.done.Load() }

// renewAfter is the least time between two channels, where the broker refuses messages.
const renewAfter = time.Second

// nacked notes that the broker refused a message. The channel itself may be the cause. A channel
// that first meets a quorum queue while its leader is down stays pinned to that node, and refuses
// messages until the node is back, although another node leads (rabbit_fifo_client:enqueue/3; seen
// on RabbitMQ 3.10.8). So a new channel is opened.
func (o *openChannel) nacked() {
	o.replacing.Do(func() { time.AfterFunc(renewAfter-time.Since(o.opened), func() { close(o.renew) }) })
}

// replace lets another channel take its place, at once unless nacked does so soon.
func (o *openChannel) replace() { o.replacing.Do(func() { close(o.renew) }) }

func (o *openChannel) isReplaced() bool {
	select {
	case <-o.renew:
		return true
	default:
		return false
	}
}

// retire closes a replaced channel once all its messages are confirmed.
func (o *openChannel) retire() {
	o.pending.Wait()
	_ = o.ch.Close() // fails only where it is closed already
}

// lost returns why the channel was closed. It waits for the cause: amqp091-go marks a channel
// closed a moment before it reports why.
func (o *openChannel) lost() error {
	<-o.closed
	return o.cause
}

// returned reports whether the broker returned the message with this header. Call it after the
// confirm: a return always comes before the confirm of its message.
func (o *openChannel) returned(header any) (amqp091.Return, bool) {
	id, _ := header.(string)
	o.mu.Lock()
	defer o.mu.Unlock()
	for more := true; more; {
		select {
		case r, ok := <-o.returns:
			if more = ok; ok {
				name, _ := r.Headers[delayer.Header].(string)
				o.waiting[name] = r
			}
		default:
			more = false
		}
	}
	r, ok := o.waiting[id]
	delete(o.waiting, id)
	return r, ok
}
