package broker

import (
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// An openChannel is one AMQP channel of a publisherChannel, with what the broker says on it beside
// confirms.
type openChannel struct {
	ch     *amqp091.Channel
	closed chan struct{} // closed once ch is, and cause is known

	returns chan amqp091.Return

	opened      time.Time
	refused     sync.Once
	renew       chan struct{}  // closed some time after the broker refused a message
	unconfirmed sync.WaitGroup // messages without a confirm

	mu      sync.Mutex
	waiting map[string]amqp091.Return // returned, not yet asked for; by delayer.Header
	cause   error
}

func newOpenChannel(ch *amqp091.Channel) *openChannel {
	o := &openChannel{
		ch:      ch,
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

// renewAfter is the least time between two channels, where the broker refuses messages.
const renewAfter = time.Second

// nacked notes that the broker refused a message. That may be the channel's fault: one that meets a
// quorum queue for the first time while its leader is gone keeps asking that node, and refuses for
// as long as the node is away, though others have taken over long since
// (rabbit_fifo_client:enqueue/3; seen on RabbitMQ 3.10.8). Another channel asks anew.
func (o *openChannel) nacked() {
	o.refused.Do(func() { time.AfterFunc(renewAfter-time.Since(o.opened), func() { close(o.renew) }) })
}

// retire closes a channel that is not used any more once everything on it is confirmed.
func (o *openChannel) retire() {
	o.unconfirmed.Wait()
	_ = o.ch.Close() // fails only where it is closed already
}

// lost says why the channel was closed. It waits for that: amqp091-go marks a channel closed a
// moment before it tells why.
func (o *openChannel) lost() error {
	<-o.closed
	return o.cause
}

// returned reports whether the broker sent the message with this header back. A return comes before
// the confirm of its message, so what is not there once the confirm is will not come.
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
