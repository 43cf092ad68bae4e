package retry

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A fake is a Delayer that notes what it is given.
type fake struct {
	delayer.Delayer // nil: nothing else is called

	answer func(n int, key string) error // to the nth Publish, from 1

	mu   sync.Mutex
	sent []sent
}

type sent struct {
	exchange, key string
	delay         time.Duration
	msg           amqp091.Publishing
	at            time.Time
}

func (f *fake) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, sent{exchange, key, delay, msg, time.Now()})
	var err error
	if f.answer != nil {
		err = f.answer(len(f.sent), key)
	}
	if !errors.Is(err, delayer.ErrInvalid) && ctx.Err() != nil {
		return &delayer.Error{Kind: delayer.ErrNotSent, Cause: ctx.Err()}
	}
	return err
}

func (f *fake) Limits() delayer.Limits {
	return delayer.Limits{Max: time.Hour, Resolution: time.Second, MaxPriority: 4}
}
func (f *fake) Close() error { return nil }

func (f *fake) keys() (keys []string) {
	for _, s := range f.sent {
		keys = append(keys, s.key)
	}
	return keys
}

func retrier(t testing.TB, d delayer.Delayer, p Policy) *Retrier {
	r, err := newRetrier(d, Config{Queue: "q", Policy: p, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return r
}

func failing(err error) Handler {
	return func(context.Context, amqp091.Delivery) error { return err }
}

// TestDo_HandlersHeaders: what a handler does to the headers is not retried.
func TestDo_HandlersHeaders(t *testing.T) {
	d := &fake{}
	in := amqp091.Delivery{Headers: amqp091.Table{"CC": []any{"other"}, "BCC": []any{"hidden"}, "kind": "x"}}
	require.True(t, retrier(t, d, intervals(3*time.Second)).Do(t.Context(), in, func(_ context.Context, m amqp091.Delivery) error {
		assert.ErrorIs(t, m.Ack(false), errRefusing)
		assert.ErrorIs(t, m.Nack(false, false), errRefusing)
		assert.ErrorIs(t, m.Reject(true), errRefusing)
		m.Headers["decoded"] = struct{}{} // AMQP has no such type
		delete(m.Headers, "kind")
		return errTest
	}))
	require.Len(t, d.sent, 1)
	got := d.sent[0]
	assert.Equal(t, []any{"", "q", 3 * time.Second}, []any{got.exchange, got.key, got.delay})
	for _, header := range []string{"CC", "BCC", "decoded"} {
		assert.NotContains(t, got.msg.Headers, header)
	}
	assert.Equal(t, "x", got.msg.Headers["kind"])
	assert.Contains(t, in.Headers, "CC", "the delivery is not modified")
}

func TestDo_Outcomes(t *testing.T) {
	var broken *brokenError
	for name, c := range map[string]struct {
		handler Handler
		key     string
		text    string
	}{
		"error":         {failing(errTest), "q", "broken"},
		"permanent":     {failing(Permanent(errTest)), "q.parked", "broken"},
		"panic":         {func(context.Context, amqp091.Delivery) error { panic("oh") }, "q", "panic: oh"},
		"Goexit":        {func(context.Context, amqp091.Delivery) error { runtime.Goexit(); return nil }, "q", "runtime.Goexit"},
		"nil panic":     {func(context.Context, amqp091.Delivery) error { var e error; return errors.New(e.Error()) }, "q", "panic: runtime error"},
		"Error panics":  {failing(broken), "q", ""},
		"Unwrap panics": {failing((*fs.PathError)(nil)), "q", ""},
		"no UTF-8":      {failing(errors.New("a\xffb")), "q", "a\uFFFDb"},
		"timeout":       {func(ctx context.Context, _ amqp091.Delivery) error { <-ctx.Done(); return ctx.Err() }, "q", "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &fake{}
				require.True(t, retrier(t, d, intervals(3*time.Second)).Do(t.Context(), amqp091.Delivery{}, c.handler))
				require.Equal(t, []string{c.key}, d.keys())
				s, ok := attempt.Parked(&amqp091.Delivery{Headers: d.sent[0].msg.Headers}, time.Now())
				require.True(t, ok)
				assert.Equal(t, 1, s.Failures)
				assert.Contains(t, s.LastError(), c.text)
				assert.Equal(t, c.key == "q.parked", s.Reason != "")
			})
		})
	}
}

type brokenError struct{ text string }

func (b *brokenError) Error() string { return b.text }

// TestDo_Observed: each run is told, with its outcome and when the message was due.
func TestDo_Observed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := false
		d := &fake{answer: func(int, string) error {
			if refuse {
				return &delayer.Error{Kind: delayer.ErrRefused}
			}
			return nil
		}}
		r := retrier(t, d, intervals(3*time.Second))
		var log bytes.Buffer
		r.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		var events []delayer.HandledEvent
		r.cfg.Observer.Handled = func(e delayer.HandledEvent) { events = append(events, e) }
		due := time.Now().Truncate(time.Millisecond).Add(-time.Minute)
		delayed := amqp091.Delivery{MessageId: "m1", Headers: amqp091.Table{
			delayer.Header: message.NewEnvelope(due, time.Minute, "orders").String(),
		}}
		var want []delayer.HandledEvent
		for _, c := range []struct {
			err     error
			outcome delayer.Handling
		}{{nil, delayer.Succeeded}, {errTest, delayer.Retried}, {Permanent(errTest), delayer.Parked}, {errTest, delayer.GivenBack}} {
			refuse = c.outcome == delayer.GivenBack
			want = append(want, delayer.HandledEvent{
				Queue: "q", Attempt: 1, Began: time.Now(), Took: time.Second, Outcome: c.outcome, Err: c.err, Due: due,
			})
			r.Do(t.Context(), delayed, func(context.Context, amqp091.Delivery) error {
				time.Sleep(time.Second)
				return c.err
			})
		}
		assert.Equal(t, want, events)
		assert.Contains(t, log.String(), "message=m1 ")
	})
}

// TestLast_IsKeptTo: what the handler was told becomes of the message, however long it then takes.
func TestLast_IsKeptTo(t *testing.T) {
	const s, m = time.Second, time.Minute
	for name, c := range map[string]struct {
		policy Policy
		before []error // earlier attempts
		err    error
		last   bool
	}{
		"first of two":     {intervals(3 * s), nil, errTest, false},
		"second of two":    {intervals(3 * s), []error{errTest}, errTest, true},
		"permanent":        {intervals(3 * s), nil, Permanent(errTest), true},
		"after":            {intervals(3 * s), nil, After(errTest, m), false},
		"after, too long":  {intervals(3 * s), nil, After(errTest, 2*time.Hour), true},
		"after, too old":   {Policy{Intervals: []time.Duration{3 * s}, MaxAge: m}, nil, After(errTest, 2*m), true},
		"age":              {Policy{First: 10 * s, MaxAge: 12 * s}, []error{errTest}, errTest, true},
		"age, almost":      {Policy{First: 10 * s, MaxAge: 20 * s}, []error{errTest}, errTest, false},
		"age, with jitter": {Policy{First: 10 * s, Jitter: 1, MaxAge: 14 * s}, []error{errTest}, errTest, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &fake{}
				r := retrier(t, d, c.policy)
				r.planner.chance = func() float64 { return 0.8 }
				var in amqp091.Delivery
				for _, err := range c.before {
					require.True(t, r.Do(t.Context(), in, failing(err)))
					in.Headers = d.sent[len(d.sent)-1].msg.Headers
					time.Sleep(d.sent[len(d.sent)-1].delay)
				}
				next := 0.8
				r.planner.chance = func() float64 { next -= 0.4; return next } // another each time
				require.True(t, r.Do(t.Context(), in, func(ctx context.Context, _ amqp091.Delivery) error {
					assert.Equal(t, c.last, Last(ctx, c.err))
					time.Sleep(30 * s) // a database is slow
					return errors.Join(c.err, errors.New("and it did not commit"))
				}))
				got := d.sent[len(d.sent)-1].key
				assert.Equal(t, c.last, got == "q.parked", got)
			})
		})
	}
	assert.True(t, Last(t.Context(), errTest), "nobody makes another attempt")
}

func TestSettle_PausesGrowUntilHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{answer: func(int, string) error { return &delayer.Error{Kind: delayer.ErrRefused} }}
		r := retrier(t, d, intervals(3*time.Second))
		start := time.Now()
		require.False(t, r.Do(t.Context(), amqp091.Delivery{}, failing(errTest)))
		assert.Equal(t, r.cfg.Hold, time.Since(start), "not before all of it")
		low, high := firstPause/2, firstPause
		for i := 1; i < len(d.sent)-1; i++ {
			gap := d.sent[i].at.Sub(d.sent[i-1].at)
			assert.True(t, gap >= low && gap <= high, "pause %d is %v, want %v to %v", i, gap, low, high)
			low, high = min(2*low, longestPause/2), min(2*high, longestPause)
		}
	})
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(n int, key string) error
		body    int
		stop    time.Duration
		settled bool
		sent    int
		took    time.Duration // at least
	}{
		"confirmed later": {answer: func(n int, _ string) error {
			if n < 4 {
				return &delayer.Error{Kind: delayer.ErrUnknown}
			}
			return nil
		}, stop: time.Hour, settled: true, sent: 4},
		// Its confirm takes long on a slow link, and is waited for: otherwise it would be sent again
		// and again.
		"a large message": {
			answer: func(int, string) error { time.Sleep(40 * time.Second); return nil },
			body:   16 << 20, stop: time.Hour, settled: true, sent: 1, took: 40 * time.Second,
		},
		"told to stop": {
			answer: func(int, string) error { return &delayer.Error{Kind: delayer.ErrRefused} },
			stop:   time.Second / 4, sent: 1, took: time.Second / 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &fake{answer: c.answer}
				ctx, stop := context.WithTimeout(t.Context(), c.stop)
				defer stop()
				began := time.Now()
				in := amqp091.Delivery{Body: make([]byte, c.body)}
				assert.Equal(t, c.settled, retrier(t, d, intervals(3*time.Second)).Do(ctx, in, failing(errTest)))
				assert.Len(t, d.sent, c.sent)
				assert.GreaterOrEqual(t, time.Since(began), c.took)
				assert.Less(t, time.Since(began), c.took+10*time.Second)
			})
		})
	}
}

func TestDo_InterruptedDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{}
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		require.False(t, retrier(t, d, intervals(3*time.Second)).Do(ctx, amqp091.Delivery{}, func(context.Context, amqp091.Delivery) error {
			stop()
			return errTest
		}))
		assert.Empty(t, d.sent)
		assert.Equal(t, firstPause, time.Since(start), "no tight loop if the consumer goes on")
	})
}

func TestPublish_WhatCannotBeDelayedIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fake{answer: func(_ int, key string) error {
			if key == "q" {
				return &delayer.Error{Kind: delayer.ErrInvalid}
			}
			return nil
		}}
		r := retrier(t, d, Policy{First: time.Second})
		s := attempt.State{Queue: "q"}.Fail(time.Now(), "one").Fail(time.Now(), "two")
		in := amqp091.Delivery{Headers: s.Publishing(&amqp091.Delivery{}, 0).Headers}
		require.True(t, r.Do(t.Context(), in, failing(errTest)))
		assert.Equal(t, []string{"q", "q.parked"}, d.keys())
		parked, ok := attempt.Parked(&amqp091.Delivery{Headers: d.sent[1].msg.Headers}, time.Now())
		require.True(t, ok)
		assert.Contains(t, parked.Reason, "cannot be retried")
		assert.Equal(t, 3, parked.Failures)
		assert.Equal(t, "broken", parked.LastError())
		assert.Len(t, parked.History, 3, "parked with all of it")
	})
}

// TestPark_TooLarge: what the broker would refuse is parked without its headers.
func TestPark_TooLarge(t *testing.T) {
	deep := any("end")
	for range 40 {
		deep = amqp091.Table{"deeper": deep}
	}
	copies := slices.Repeat([]any{strings.Repeat("k", 250)}, 512)
	for name, headers := range map[string]amqp091.Table{
		"a header":        {"big": strings.Repeat("x", 130_400), "kind": "order"},
		"copies":          {"CC": copies},
		"nested too deep": {"deep": deep},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &fake{}
			d.answer = func(n int, key string) error {
				err := message.Validate("", key, &d.sent[n-1].msg, message.Limits{FrameSize: 128 << 10, MaxPriority: 4})
				if err != nil {
					return &delayer.Error{Kind: delayer.ErrInvalid, Cause: err}
				}
				return nil
			}
			in := amqp091.Delivery{Headers: headers, Body: []byte("body"), MessageId: strings.Repeat("m", 255)}
			require.True(t, retrier(t, d, Policy{First: time.Second, MaxAttempts: 1}).Do(t.Context(), in, failing(errTest)), name)
			got := d.sent[len(d.sent)-1]
			assert.Equal(t, "q.parked", got.key)
			assert.Equal(t, "body", string(got.msg.Body))
			assert.Equal(t, in.MessageId, got.msg.MessageId)
			assert.NotContains(t, got.msg.Headers, "kind")
			parked, ok := attempt.Parked(&amqp091.Delivery{Headers: got.msg.Headers}, time.Now())
			require.True(t, ok)
			assert.Contains(t, parked.Reason, "too large to be parked whole")
			assert.Contains(t, parked.Reason, "all 1 attempts failed")
			assert.Equal(t, "broken", parked.LastError())
		})
	}
}

// TestConfig_DefaultPrefetch: no message is unacknowledged for longer than the broker allows.
func TestConfig_DefaultPrefetch(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want int
	}{
		"default":             {Config{}, 24},
		"concurrent":          {Config{Concurrency: 16}, 50},
		"very concurrent":     {Config{Concurrency: 100}, 100},
		"quick":               {Config{HandlerTimeout: time.Second}, 50},
		"slow":                {Config{HandlerTimeout: 10 * time.Minute}, 2},
		"slow and concurrent": {Config{HandlerTimeout: 10 * time.Minute, Concurrency: 10}, 20},
		"very slow":           {Config{HandlerTimeout: 2 * time.Hour, ConsumerTimeout: 3 * time.Hour}, 1},
	} {
		c.cfg.Queue, c.cfg.Policy = "q", intervals(time.Second)
		got, err := c.cfg.resolve(ladder)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got.Prefetch, name)
	}
}

func TestConfig_Refused(t *testing.T) {
	good := Config{Queue: "q", Policy: intervals(time.Second)}
	for want, spoil := range map[string]func(*Config){
		"queue":            func(c *Config) { c.Queue = "" },
		"line break":       func(c *Config) { c.Queue = "a\nb" },
		"parked":           func(c *Config) { c.Parked = "q" },
		"255":              func(c *Config) { c.Parked = string(make([]byte, 256)) },
		"concurrency":      func(c *Config) { c.Concurrency = -1 },
		"prefetch":         func(c *Config) { c.Prefetch, c.Concurrency = 2, 3 },
		"65535":            func(c *Config) { c.Prefetch = 1 << 16 },
		"handler_timeout":  func(c *Config) { c.HandlerTimeout = -1 },
		"with hold, 30m":   func(c *Config) { c.HandlerTimeout = 25 * time.Minute },
		"is above 24":      func(c *Config) { c.Prefetch = 25 },
		"is above 48":      func(c *Config) { c.Prefetch, c.Concurrency = 49, 2 },
		"is above 2":       func(c *Config) { c.Prefetch, c.HandlerTimeout = 3, 10*time.Minute },
		"consumer_timeout": func(c *Config) { c.ConsumerTimeout = -1 },
		"stop_timeout":     func(c *Config) { c.StopTimeout = -1 },
		"hold":             func(c *Config) { c.Hold = 59 * time.Second },
		"1h0m0s":           func(c *Config) { c.Policy = intervals(2 * time.Hour) },
		"url":              func(c *Config) { c.URL = "http://user:s3cret@host" },
	} {
		t.Run(want, func(t *testing.T) {
			cfg := good
			spoil(&cfg)
			err := Consume(t.Context(), &fake{}, cfg, failing(nil))
			require.ErrorIs(t, err, delayer.ErrConfig)
			assert.ErrorContains(t, err, want)
			assert.NotContains(t, err.Error(), "s3cret")
		})
	}
	err := Consume(t.Context(), nil, good, failing(nil))
	require.ErrorIs(t, err, delayer.ErrConfig)
	require.ErrorContains(t, err, "delayer")
	err = Consume(t.Context(), &fake{}, good, nil)
	require.ErrorIs(t, err, delayer.ErrConfig)
	require.ErrorContains(t, err, "handler")
}

// TestWithAttempt: a handler can be tested at any attempt.
func TestWithAttempt(t *testing.T) {
	second := Attempt{Number: 2, Max: 3, LastError: "503"}
	ctx := WithAttempt(t.Context(), second)
	require.Equal(t, second, Info(ctx))
	require.False(t, Last(ctx, errTest))
	require.True(t, Last(ctx, Permanent(errTest)))
	require.True(t, Last(WithAttempt(ctx, Attempt{Number: 3, Max: 3}), errTest))
	require.True(t, Last(t.Context(), errTest), "a ctx of no handler")
}
