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

func TestServe_StopFinishesWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, &fake{}, 1, func(ctx context.Context, _ amqp091.Delivery) error {
			time.Sleep(20 * time.Second)
			return ctx.Err()
		})
		synctest.Wait()
		s.stop()
		<-s.done
		assert.Equal(t, map[uint64]bool{1: true}, s.got, "finished, and no other begun")
	})
}

func TestServe_StopSettlesWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{}
		s := serving(t, d, 1, func(context.Context, amqp091.Delivery) error {
			time.Sleep(time.Second)
			return errTest
		})
		synctest.Wait()
		s.stop()
		<-s.done
		assert.Equal(t, []string{"q"}, d.keys())
		assert.Equal(t, map[uint64]bool{1: true}, s.got)
	})
}

func TestServe_StopTimeoutEndsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{}
		s := serving(t, d, 2, func(ctx context.Context, _ amqp091.Delivery) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		synctest.Wait()
		start := time.Now()
		s.stop()
		<-s.done
		assert.Equal(t, 30*time.Second, time.Since(start))
		assert.Empty(t, d.sent, "an interrupted attempt is no failure")
		assert.Empty(t, s.got, "closing the channel gives them back")
	})
}

func TestServe_LostChannelEndsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{}
		s := serving(t, d, 1, func(ctx context.Context, _ amqp091.Delivery) error {
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), errLost)
			return ctx.Err()
		})
		synctest.Wait()
		s.lose()
		close(s.messages)
		<-s.done
		assert.Empty(t, d.sent)
	})
}

// TestServe_LostChannelEndsPauses: a message that is held keeps nobody from connecting again.
func TestServe_LostChannelEndsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{answer: func(int, string) error { return &delayer.Error{Kind: delayer.ErrRefused} }}
		s := serving(t, d, 3, failing(errTest))
		time.Sleep(3 * time.Minute) // the pauses are of half a minute and more
		lost := time.Now()
		s.lose()
		close(s.messages)
		<-s.done
		assert.Zero(t, time.Since(lost))
	})
}

func TestServe_HeldMessageBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{answer: func(int, string) error { return &delayer.Error{Kind: delayer.ErrRefused} }}
		s := serving(t, d, 1, func(_ context.Context, m amqp091.Delivery) error {
			if m.DeliveryTag == 1 {
				return errTest
			}
			return nil
		})
		synctest.Wait()
		s.mu.Lock()
		assert.Equal(t, map[uint64]bool{2: true, 3: true}, s.got)
		s.mu.Unlock()
		close(s.messages)
		<-s.done
		assert.Equal(t, map[uint64]bool{1: false, 2: true, 3: true}, s.got, "given back in the end")
	})
}

func TestServe_GoexitBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{}
		s := serving(t, d, 1, func(_ context.Context, m amqp091.Delivery) error {
			if m.DeliveryTag == 1 {
				runtime.Goexit() // as t.FailNow does
			}
			return nil
		})
		close(s.messages)
		<-s.done
		assert.Equal(t, map[uint64]bool{1: true, 2: true, 3: true}, s.got)
		assert.Equal(t, []string{"q"}, d.keys(), "it counts as a failure")
	})
}

func TestServe_Concurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := serving(t, &fake{}, 3, func(context.Context, amqp091.Delivery) error {
			time.Sleep(time.Second)
			return nil
		})
		close(s.messages)
		<-s.done
		assert.Equal(t, time.Second, time.Since(start))
	})
}
