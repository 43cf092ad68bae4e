package broker

import (
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A session is one life of a publishing channel, with what the broker says on it beside confirms.
type session struct {
	ch   *amqp091.Channel
	dead chan struct{} // closed once the channel is

	returns chan amqp091.Return

	opened  time.Time
	refused sync.Once
	doubt   chan struct{}  // closed some time after the broker refused a message
	unsure  sync.WaitGroup // messages without a confirm

	mu      sync.Mutex
	waiting map[string]amqp091.Return // returned, not yet asked for; by delayer.Header
	lost    error
}

func newSession(ch *amqp091.Channel) *session {
	s := &session{
		ch:      ch,
		dead:    make(chan struct{}),
		opened:  time.Now(),
		doubt:   make(chan struct{}),
		returns: ch.NotifyReturn(make(chan amqp091.Return, window)),
		waiting: map[string]amqp091.Return{},
	}
	closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
	go func() {
		err := <-closed
		s.mu.Lock()
		s.lost = amqp091.ErrClosed
		if err != nil {
			s.lost = err
		}
		s.mu.Unlock()
		close(s.dead)
	}()
	return s
}

// renewAfter is the least time between two channels of a lane, where the broker refuses messages.
const renewAfter = time.Second

// nacked notes that the broker refused a message. That may be the channel's fault: one that meets a quorum queue for the
// first time while its leader is gone keeps asking that node, and refuses for as long as the node is away, though
// others have taken over long since (rabbit_fifo_client:enqueue/3; seen on RabbitMQ 3.10.8). Another channel asks anew.
func (s *session) nacked() {
	s.refused.Do(func() { time.AfterFunc(renewAfter-time.Since(s.opened), func() { close(s.doubt) }) })
}

// retire closes a channel that is not used any more once everything on it is confirmed.
func (s *session) retire() {
	s.unsure.Wait()
	_ = s.ch.Close() // fails only where it is closed already
}

// cause says why the session died, waiting for it to be dead: amqp091-go marks the channel closed a
// moment before it tells why.
func (s *session) cause() error {
	<-s.dead
	s.mu.Lock()
	defer s.mu.Unlock()
	return plain(s.lost)
}

// returned reports whether the broker sent the message with this header back. A return comes before the
// confirm of its message, so what is not there once the confirm is will not come.
func (s *session) returned(header any) (amqp091.Return, bool) {
	id, _ := header.(string)
	s.mu.Lock()
	defer s.mu.Unlock()
	for more := true; more; {
		select {
		case r, ok := <-s.returns:
			if more = ok; ok {
				name, _ := r.Headers[delayer.Header].(string)
				s.waiting[name] = r
			}
		default:
			more = false
		}
	}
	r, ok := s.waiting[id]
	delete(s.waiting, id)
	return r, ok
}
