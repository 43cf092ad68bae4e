// Package longdelays_test runs the conformance suite's case of long delays on a broker whose clock
// is put forward, and reads in the messages that arrive which queues they have passed.
package longdelays_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/conformance/rabbitworld"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// tick is short, because a case waits for its shortest delays in real time.
const tick = 100 * time.Millisecond

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

// A subject is a configuration that the case runs on.
type subject struct {
	name string
	cfg  backend.Config
}

// subjects are the backends whose messages wait in the broker alone. What waits with a controller
// is compared with this process's clock, which goes on as before. A message is late by up to a step
// of the clock in each queue that it passes: so there is no ladder here with a queue for each bit,
// which passes many. docs/testing.md says what else is left out.
func subjects() []subject {
	const day = 24 * time.Hour
	tiers := func(kind delayer.QueueType, rounding fixedtiers.Rounding) backend.Config {
		return backend.Config{
			Backend: "fixedtiers", Options: delayer.Options{QueueType: kind},
			FixedTiers: fixedtiers.Config{Tiers: []time.Duration{3 * tick, time.Hour, 30 * day, 3000 * day}, Rounding: rounding},
		}
	}
	return []subject{
		{"binaryladder/calendar/classic", backend.Config{
			Options: delayer.Options{QueueType: delayer.Classic}, BinaryLadder: binaryladder.Config{Tick: tick},
		}},
		{"fixedtiers/up/quorum", tiers(delayer.Quorum, "")},
		{"fixedtiers/exact/classic", tiers(delayer.Classic, "exact")},
		{"plugin", backend.Config{Backend: "plugin"}},
	}
}

func TestLongDelays(t *testing.T) {
	// It takes 45 seconds on a machine that does little else, and minutes on a busy one.
	const asked = "DELAYER_LONG_DELAYS"
	if os.Getenv(asked) == "" {
		rabbittest.Skipf(t, "it needs a machine that does little else: set %s=1", asked)
	}
	b := rabbittest.Clocked(t, rabbit.Options{Plugins: []string{rabbittest.DelayedMessages}, Logf: t.Logf})
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			cfg := s.cfg
			if cfg.Backend == "plugin" && !b.HasPlugin(rabbittest.DelayedMessages) {
				rabbittest.Skipf(t, "the broker has no plugin %s", rabbittest.DelayedMessages)
			}
			cfg.URL, cfg.Prefix, cfg.Logger = b.URL(), rabbittest.Prefix(t), slog.New(slog.DiscardHandler)
			began, at := time.Now(), b.Now()
			messages := conform(t, b, cfg)
			t.Logf("%v by the broker's clock, in %v", b.Now().Sub(at), time.Since(began).Round(time.Millisecond))
			if cfg.Backend != "plugin" {
				for _, m := range messages {
					assertPassed(t, b, m)
				}
			}
			rabbittest.Evidence(t, b)
			rabbittest.Remove(t, cfg)
		})
	}
}

// conform runs the case, and returns the messages with long delays that arrived.
func conform(t *testing.T, b *rabbit.Broker, cfg backend.Config) []amqp091.Delivery {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	around, err := rabbitworld.Open(ctx, rabbitworld.Config{URL: cfg.URL, Clock: b})
	require.NoError(t, err)
	defer func() { require.NoError(t, around.Close()) }()
	seen := &witness{}
	conformance.Run(t, conformance.Harness{
		Only: []string{"long-delays-arrive"},
		Open: func(ctx context.Context) (delayer.Delayer, error) {
			return backend.Open(engine.WithWatchEvery(ctx, time.Minute), cfg)
		},
		World: func(ctx context.Context) (conformance.World, error) {
			w, err := around.World(ctx)
			return seenBy{w, seen}, err
		},
		Skip: func(t *testing.T, reason string) { t.Fatal(reason) },
	})
	if !t.Failed() {
		require.NotEmpty(t, seen.long)
	}
	return seen.long
}

// A witness keeps the messages of the case that arrive.
type witness struct {
	mu   sync.Mutex
	long []amqp091.Delivery
}

type seenBy struct {
	conformance.World
	by *witness
}

func (s seenBy) Consume(ctx context.Context, queue string, arrived func(conformance.Arrival)) error {
	return s.World.Consume(ctx, queue, func(a conformance.Arrival) {
		if strings.HasPrefix(a.MessageId, "long-") {
			s.by.mu.Lock()
			s.by.long = append(s.by.long, a.Delivery)
			s.by.mu.Unlock()
		}
		arrived(a)
	})
}

// assertPassed compares the delay of a message with what the broker says: x-death names the queues
// that it has passed, and each queue's arguments hold its TTL.
func assertPassed(t *testing.T, b *rabbit.Broker, m amqp091.Delivery) {
	said, err := delayer.ParseHeader(m.Headers)
	require.NoError(t, err)
	deaths, _ := m.Headers["x-death"].([]any)
	require.NotEmpty(t, deaths)
	var wait time.Duration
	var queues []string
	for _, entry := range deaths {
		death := entry.(amqp091.Table)
		require.Equal(t, "expired", death["reason"])
		ttl := ttlOf(t, b, death["queue"].(string))
		wait += ttl * time.Duration(death["count"].(int64))
		queues = append(queues, fmt.Sprintf("%v×%v", death["count"], ttl))
	}
	t.Logf("%v: %s", said.Delay, strings.Join(queues, " + "))
	assert.GreaterOrEqual(t, wait, said.Delay)
	assert.Less(t, wait-said.Delay, tick)
}

// ttlOf is the TTL of a queue, by the broker.
func ttlOf(t *testing.T, b *rabbit.Broker, queue string) time.Duration {
	said, err := b.Ctl(t.Context(), "eval", fmt.Sprintf(`begin
		{ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
		{_, _, TTL} = lists:keyfind(<<"x-message-ttl">>, 1, amqqueue:get_arguments(Queue)),
		TTL
	end.`, queue))
	require.NoError(t, err)
	ms, err := strconv.Atoi(strings.TrimSpace(said))
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}
