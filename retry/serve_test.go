package retry

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
)

// acks notes what is acknowledged (true) and given back (false), by delivery tag.
type acks struct {
	mu  sync.Mutex
	got map[uint64]bool
}

func (a *acks) note(tag uint64, ack bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got == nil {
		a.got = map[uint64]bool{}
	}
	a.got[tag] = ack
	return nil
}

func (a *acks) Ack(tag uint64, _ bool) error           { return a.note(tag, true) }
func (a *acks) Nack(tag uint64, _, requeue bool) error { return a.note(tag, !requeue) }
func (a *acks) Reject(tag uint64, _ bool) error        { return a.note(tag, false) }

// shift is a serve under way, with three messages before it.
type shift struct {
	acks
	stop, lose context.CancelFunc
	messages   chan amqp091.Delivery
	done       chan struct{}
}

func serving(t *testing.T, d delayer.Delayer, concurrency int, h Handler) *shift {
	r := retrier(t, d, intervals(3*time.Second))
	r.cfg.Concurrency = concurrency
	s := &shift{messages: make(chan amqp091.Delivery, 3), done: make(chan struct{})}
	for tag := range uint64(3) {
		s.messages <- amqp091.Delivery{Acknowledger: &s.acks, DeliveryTag: tag + 1}
	}
	stop, cancel := context.WithCancel(t.Context())
	alive, lose := context.WithCancel(t.Context())
	s.stop, s.lose = cancel, lose
	go func() { defer close(s.done); r.serve(stop, alive, s.messages, h) }()
	return s
}

func TestServe(t *testing.T) {
	type outcome = map[uint64]bool
	first := func(does func() error) Handler { // others succeed
		return func(_ context.Context, m amqp091.Delivery) error {
			if m.DeliveryTag == 1 {
				return does()
			}
			return nil
		}
	}
	untilDone := func(ctx context.Context, _ amqp091.Delivery) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	takes := func(d time.Duration, err error) Handler {
		return func(context.Context, amqp091.Delivery) error {
			time.Sleep(d)
			return err
		}
	}
	lose := func(s *shift) { s.lose(); close(s.messages) }
	stop := func(s *shift) { s.stop() }
	end := func(s *shift) { close(s.messages) }
	for name, c := range map[string]struct {
		concurrency int
		handler     Handler
		refused     bool          // whatever is published
		until       time.Duration // what then happens
		then        func(*shift)
		took        time.Duration // from then on
		got         outcome
		sent        []string
	}{
		"stop finishes what runs, and begins no other": {1, takes(20*time.Second, nil), false, 0, stop, 20 * time.Second, outcome{1: true}, nil},
		"stop settles what fails":                      {1, takes(time.Second, errTest), false, 0, stop, time.Second, outcome{1: true}, []string{"q"}},
		// An interrupted attempt is no failure, and closing the channel gives the messages back.
		"the stop timeout ends handlers":   {2, untilDone, false, 0, stop, 30 * time.Second, nil, nil},
		"a lost channel ends handlers":     {1, untilDone, false, 0, lose, 0, nil, nil},
		"a lost channel ends long pauses":  {3, failing(errTest), true, 3 * time.Minute, lose, 0, outcome{1: false, 2: false, 3: false}, nil},
		"a held message blocks no other":   {1, first(func() error { return errTest }), true, time.Minute, end, 4 * time.Minute, outcome{1: false, 2: true, 3: true}, nil},
		"Goexit is a failure, no blockade": {1, first(func() error { runtime.Goexit(); return nil }), false, 0, end, 0, outcome{1: true, 2: true, 3: true}, []string{"q"}},
		"concurrency":                      {3, takes(time.Second, nil), false, 0, end, time.Second, outcome{1: true, 2: true, 3: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &fake{}
				if c.refused {
					d.answer = func(int, string) error { return &delayer.Error{Kind: delayer.ErrRefused} }
				}
				s := serving(t, d, c.concurrency, c.handler)
				time.Sleep(c.until)
				synctest.Wait()
				if name == "a held message blocks no other" {
					s.mu.Lock()
					assert.Equal(t, outcome{2: true, 3: true}, s.got, "while the first is held")
					s.mu.Unlock()
				}
				began := time.Now()
				c.then(s)
				<-s.done
				assert.Equal(t, c.took, time.Since(began))
				assert.Equal(t, c.got, s.got)
				if !c.refused {
					assert.Equal(t, c.sent, d.keys())
				}
			})
		})
	}
}
