package entry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// A scripted forwarder is one between a broker and a Delayer whose answers the test decides.
type scripted struct {
	delayer.Delayer // nil: nothing else is called
	*forwarder
	answer func(to string, p broker.Publishing, delay time.Duration) error

	mu     sync.Mutex
	events []string // what was published and acknowledged, in order
}

func (s *scripted) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

func (s *scripted) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func newScripted() *scripted {
	s := &scripted{answer: func(string, broker.Publishing, time.Duration) error { return nil }}
	s.forwarder = &forwarder{
		rules: clean, delayer: s, log: slog.New(slog.DiscardHandler), frame: func() int { return 1 << 17 },
		declare: func(context.Context) error { s.note("declare"); return nil }, passed: func(string, time.Duration) {},
		direct: func(_ context.Context, p broker.Publishing) error {
			err := s.answer("direct", p, 0)
			if err == nil {
				s.note("%s to %s%s", p.Message.MessageId, p.Exchange, p.Key)
				if p.Written != nil {
					p.Written()
				}
			}
			return err
		},
	}
	return s
}

func (s *scripted) Publish(_ context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	err := s.answer("delayer", broker.Publishing{Exchange: exchange, Key: key, Message: msg}, delay)
	if err == nil {
		s.note("%s delayed %v", msg.MessageId, delay)
	}
	return err
}

func (s *scripted) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return each(ctx, s, messages)
}

func each(ctx context.Context, d delayer.Delayer, messages []delayer.Message) (results []error) {
	for _, m := range messages {
		results = append(results, d.Publish(ctx, m.Exchange, m.Key, m.Delay, m.Publishing))
	}
	return results
}

func (*scripted) Limits() delayer.Limits { return clean.limits }
func (*scripted) Close() error           { return nil }

// Ack notes each message that the acknowledgement stands for.
func (s *scripted) Ack(tag uint64, multiple bool) error {
	first := tag
	if multiple {
		first = 1
	}
	for ; first <= tag; first++ {
		over := slices.ContainsFunc(s.seen(), func(event string) bool {
			return slices.Contains([]string{fmt.Sprint("ack ", first), fmt.Sprint("nack ", first), fmt.Sprint("reject ", first)}, event)
		})
		if !over {
			s.note("ack %d", first)
		}
	}
	return nil
}

func (s *scripted) Nack(tag uint64, _, _ bool) error { s.note("nack %d", tag); return nil }
func (s *scripted) Reject(tag uint64, again bool) error {
	if again {
		return errors.New("not used")
	}
	s.note("reject %d", tag)
	return nil
}

func (s *scripted) message(tag uint64, delay any) amqp091.Delivery {
	d := incoming(nil)
	if delay != nil {
		d.Headers = amqp091.Table{"x-delay": delay}
	}
	d.MessageId, d.Acknowledger, d.DeliveryTag = fmt.Sprintf("m%d", tag), s, tag
	return d
}

// run serves messages until stop is called.
func (s *scripted) run(messages ...amqp091.Delivery) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	in, ended := make(chan amqp091.Delivery, len(messages)), make(chan struct{})
	for _, d := range messages {
		in <- d
	}
	go func() {
		defer close(ended)
		s.serve(ctx, context.Background(), s.Queue, in)
	}()
	return func() { cancel(); <-ended }
}

func fail(kind error) error { return &delayer.Error{Op: "publish", Kind: kind} }

func TestForwarder_AcksAfterTheConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		stop := s.run(s.message(1, nil), s.message(2, int32(5000)))
		synctest.Wait()
		assert.ElementsMatch(t, []string{"m1 to " + "behind" + "order.new", "ack 1", "m2 delayed 5s", "ack 2"}, s.seen())
		stop()
	})
}

func TestForwarder_KeepsTheOrderOfWhatGoesStraight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		var messages []amqp091.Delivery
		for i := range 200 {
			messages = append(messages, s.message(uint64(i+1), nil))
		}
		stop := s.run(messages...)
		synctest.Wait()
		var order []string
		for _, e := range s.seen() {
			var id int
			if _, err := fmt.Sscanf(e, "m%d to", &id); err == nil {
				order = append(order, e)
			}
		}
		assert.Len(t, order, 200)
		assert.True(t, slices.IsSortedFunc(order, func(a, b string) int {
			var x, y int
			_, _ = fmt.Sscanf(a, "m%d", &x)
			_, _ = fmt.Sscanf(b, "m%d", &y)
			return x - y
		}))
		stop()
	})
}

// TestForwarder_Waits: what concerns all messages parks none.
func TestForwarder_Waits(t *testing.T) {
	for _, kind := range []error{
		delayer.ErrRefused, delayer.ErrUnavailable, delayer.ErrNotSent, delayer.ErrUnknown, delayer.ErrConflict, delayer.ErrAccess, delayer.ErrUnroutable,
	} {
		for _, delay := range []any{nil, int32(5000)} {
			if errors.Is(kind, delayer.ErrRefused) && delay == nil {
				continue // by its destination: see TestForwarder_Parks
			}
			synctest.Test(t, func(t *testing.T) {
				s, back := newScripted(), time.Now().Add(time.Hour)
				s.answer = func(string, broker.Publishing, time.Duration) error {
					if time.Now().Before(back) {
						return fail(kind)
					}
					return nil
				}
				stop := s.run(s.message(1, delay))
				time.Sleep(time.Hour - time.Second)
				synctest.Wait()
				assert.Empty(t, s.seen(), "%v", kind)
				time.Sleep(longestPause + time.Second)
				synctest.Wait()
				assert.Len(t, s.seen(), 2, "%v: published and acknowledged", kind)
				stop()
			})
		}
	}
}

// TestForwarder_WaitedHere: a delay counts from when the message is read, also where it takes long
// to pass it on.
func TestForwarder_WaitedHere(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{2 * time.Hour: time.Hour, time.Minute: time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s, back := newScripted(), time.Now().Add(time.Hour)
			var asked time.Duration
			s.answer = func(_ string, _ broker.Publishing, delay time.Duration) error {
				asked = delay
				if time.Now().Before(back) {
					return fail(delayer.ErrConflict)
				}
				return nil
			}
			stop := s.run(s.message(1, delay.Milliseconds()))
			time.Sleep(time.Second)
			synctest.Wait()
			time.Sleep(time.Hour + longestPause)
			synctest.Wait()
			assert.Len(t, s.seen(), 2, "published and acknowledged")
			assert.InDelta(t, want, asked, float64(longestPause))
			stop()
		})
	}
}

func TestForwarder_Parks(t *testing.T) {
	for name, c := range map[string]struct {
		kind  error
		delay any
		after time.Duration
	}{
		"an unreadable delay": {nil, "soon", 0},
		"a delay too long":    {delayer.ErrOutOfRange, int32(5000), 0},
		"an invalid message":  {delayer.ErrInvalid, int32(5000), 0},
		"a refused message":   {delayer.ErrRefused, nil, refusedFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, attempts := newScripted(), 0
				s.answer = func(_ string, p broker.Publishing, _ time.Duration) error {
					if p.Key == s.Parked {
						return nil
					}
					attempts++
					return fail(c.kind)
				}
				stop := s.run(s.message(1, c.delay), s.message(2, "soon"))
				synctest.Wait()
				assert.Contains(t, s.seen(), "ack 2", "it does not wait for the one before it")
				if c.after > 0 {
					assert.NotContains(t, s.seen(), "ack 1")
				}
				time.Sleep(c.after + 2*longestPause)
				synctest.Wait()
				assert.Contains(t, s.seen(), "m1 to "+s.Parked)
				assert.Contains(t, s.seen(), "ack 1")
				assert.LessOrEqual(t, attempts, 2, "each may be a copy in another queue of the exchange")
				stop()
			})
		})
	}
}

func TestForwarder_ParkedQueueGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, gone := newScripted(), true
		s.declare = func(context.Context) error { gone = false; return nil }
		s.answer = func(string, broker.Publishing, time.Duration) error {
			if gone {
				return &delayer.Error{Kind: delayer.ErrUnroutable, Cause: broker.ErrReturned}
			}
			return nil
		}
		stop := s.run(s.message(1, "soon"))
		synctest.Wait()
		assert.Equal(t, []string{"m1 to " + s.Parked, "ack 1"}, s.seen())
		stop()
	})
}

// TestForwarder_TooLarge: what cannot even be parked stays, and stops nobody.
func TestForwarder_TooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.frame = func() int { return 50 }
		stop := s.run(s.message(1, nil), s.message(2, int32(5000)))
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"m2 delayed 5s", "ack 2", "reject 1"}, s.seen(), "the broker moves it")
		stop()
	})
}

// TestForwarder_CannotBeParked: the broker moves what it does not take from us, as a body above a
// limit that was lowered.
func TestForwarder_CannotBeParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.answer = func(string, broker.Publishing, time.Duration) error { return fail(delayer.ErrInvalid) }
		stop := s.run(s.message(1, nil), s.message(2, int32(5000)), s.message(3, "soon"))
		synctest.Wait()
		assert.Subset(t, s.seen(), []string{"reject 1", "reject 2", "reject 3"})
		stop()
	})
}

// TestForwarder_Drains: what is under way when the entry stops has ten seconds; the rest goes back.
func TestForwarder_Drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.delayer = slow{s, 5 * time.Second}
		stop := s.run(s.message(1, int32(5000)))
		synctest.Wait()
		began := time.Now()
		stop()
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Equal(t, []string{"m1 delayed 5s", "ack 1"}, s.seen())

		s = newScripted()
		s.delayer = slow{s, time.Hour}
		stop = s.run(s.message(1, int32(5000)))
		synctest.Wait()
		began = time.Now()
		stop()
		assert.Equal(t, drainTimeout, time.Since(began))
		assert.Equal(t, []string{"nack 1"}, s.seen())
	})
}

// TestForwarder_LargeMessages: the confirms of large messages take long on a slow link, and are
// waited for: otherwise they would be sent again and again.
func TestForwarder_LargeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted()
		s.delayer = slow{s, 20 * time.Second}
		var messages []amqp091.Delivery
		for tag := range uint64(3) {
			m := s.message(tag+1, int32(5000))
			m.Body = make([]byte, 16<<20)
			messages = append(messages, m)
		}
		stop := s.run(messages...)
		synctest.Wait()
		time.Sleep(3 * 20 * time.Second) // one after the other
		synctest.Wait()
		assert.ElementsMatch(t, []string{
			"m1 delayed 5s", "ack 1", "m2 delayed 5s", "ack 2", "m3 delayed 5s", "ack 3",
		}, s.seen())
		stop()
	})
}

// slow is a Delayer that takes its time.
type slow struct {
	*scripted
	takes time.Duration
}

func (d slow) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	select {
	case <-time.After(d.takes):
		return d.scripted.Publish(ctx, exchange, key, delay, msg)
	case <-ctx.Done():
		return fail(delayer.ErrUnknown)
	}
}

func (d slow) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return each(ctx, d, messages)
}
