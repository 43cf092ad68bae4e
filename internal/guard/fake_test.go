package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
)

// A fakeBroker is a broker as far as probes see it, under the policies that a test sets.
type fakeBroker struct {
	mu        sync.Mutex
	ttl       time.Duration // of a policy; 0: none
	alternate bool          // a policy sets alternate-exchange
	overflow  bool          // a policy sets overflow
	latency   time.Duration // of probes that come back
	down      error         // what everything fails with
	inspect   error         // what the management API answers
	hangs     bool          // the management API does not answer

	queues   [probeQueues]*amqp091.Publishing
	back     chan amqp091.Delivery
	attempts int
}

// set changes the broker.
func (b *fakeBroker) set(change func(*fakeBroker)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

func (b *fakeBroker) open(context.Context) (anew bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts++
	if b.down != nil {
		return false, b.down
	}
	anew = b.back == nil
	if anew {
		b.back = make(chan amqp091.Delivery, 100)
	}
	return anew, nil
}

func (b *fakeBroker) returned() <-chan amqp091.Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.back
}

func (b *fakeBroker) ended()            { b.set(func(b *fakeBroker) { b.back = nil }) }
func (b *fakeBroker) name(n int) string { return strconv.Itoa(n) }
func (b *fakeBroker) returnKey() string { return "back" }

func (b *fakeBroker) holds(_ context.Context, n int) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queues[n] != nil, b.down
}

func (b *fakeBroker) publish(_ context.Context, p broker.Publishing) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempts++
	switch {
	case b.down != nil:
		return b.down
	case p.Key == keyNowhere && !b.alternate:
		return fmt.Errorf("no route: %w", broker.ErrReturned)
	case p.Key == keyFull && !b.overflow:
		return &delayer.Error{Op: "publish", Kind: delayer.ErrRefused}
	case p.Key == b.returnKey():
		b.put(p.Message)
	}
	return nil
}

// put stores a probe in its queue, from which it drives out the one before it.
func (b *fakeBroker) put(m amqp091.Publishing) {
	n, _ := strconv.Atoi(m.Headers["BCC"].([]any)[0].(string))
	if last := b.queues[n]; last != nil {
		b.deadLetter(last, "maxlen")
	}
	b.queues[n] = &m
	ttl := probeTTL
	if b.ttl > 0 {
		ttl = b.ttl
	}
	time.AfterFunc(ttl, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.queues[n] == &m {
			b.queues[n] = nil
			b.deadLetter(&m, "expired")
		}
	})
}

func (b *fakeBroker) deadLetter(m *amqp091.Publishing, reason string) {
	back, d := b.back, amqp091.Delivery{Headers: amqp091.Table{"x-first-death-reason": reason}}
	d.Headers[delayer.Header] = m.Headers[delayer.Header]
	time.AfterFunc(b.latency, func() { back <- d })
}

// loseConnection takes the queues and the consumer away.
func (b *fakeBroker) loseConnection() {
	b.set(func(b *fakeBroker) {
		b.queues = [probeQueues]*amqp091.Publishing{}
		close(b.back)
	})
}

// A scene is a Guard at work in a synctest bubble.
type scene struct {
	*fakeBroker
	guard *Guard
	busy  atomic.Bool

	logging sync.Mutex
	log     bytes.Buffer
	changes []delayer.PolicyFaultEvent
}

// play runs a Guard as long as act takes. It is busy until act says otherwise.
func play(t *testing.T, act func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{fakeBroker: &fakeBroker{}}
		s.busy.Store(true)
		s.guard = newGuard(Config{
			Backend: "test", Prefix: "p", QueueType: delayer.Quorum, Logger: slog.New(slog.NewTextHandler(s, nil)),
			Publish: s.publish, Inspect: s.ask, Observer: delayer.Observer{PolicyFault: s.changed},
		}, s.fakeBroker)
		require.NoError(t, s.guard.Open(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.guard.Run(ctx, s.busy.Load)
		}()
		act(t, s)
		cancel()
		<-ended
	})
}

// ask is the management API.
func (s *scene) ask(ctx context.Context) error {
	s.mu.Lock()
	hangs, answer := s.hangs, s.inspect
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return answer
}

// changed observes faults.
func (s *scene) changed(e delayer.PolicyFaultEvent) {
	s.logging.Lock()
	defer s.logging.Unlock()
	s.changes = append(s.changes, e)
}

// Write implements [io.Writer], for the log.
func (s *scene) Write(p []byte) (int, error) {
	s.logging.Lock()
	defer s.logging.Unlock()
	return s.log.Write(p)
}

// logged says how often a fault was found, and lifted, until now.
func (s *scene) logged() (found, lifted, warnings int) {
	s.logging.Lock()
	defer s.logging.Unlock()
	text := s.log.String()
	return strings.Count(text, "delayed messages would be early"), strings.Count(text, "the policy is gone"),
		strings.Count(text, "level=WARN")
}

// requireLogged requires that.
func (s *scene) requireLogged(t *testing.T, found, lifted int) {
	t.Helper()
	f, l, warnings := s.logged()
	require.Equal(t, []int{found, lifted, 0}, []int{f, l, warnings}, "found, lifted, warnings: %s", s.log.String())
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func conflict(text string) error {
	return &delayer.Error{Op: "open", Object: "policies", Kind: delayer.ErrConflict, Cause: errors.New(text)}
}

// unavailable is what a broker or an API that does not answer says.
var unavailable = &delayer.Error{Op: "look at policies", Kind: delayer.ErrUnavailable, Cause: errors.New("503 Service Unavailable")}
