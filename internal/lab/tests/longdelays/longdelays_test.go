// Package longdelays_test runs the conformance suite's case of long delays on a broker whose clock
// is put forward.
package longdelays_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

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
			conform(t, b, cfg)
			t.Logf("%v by the broker's clock, in %v", b.Now().Sub(at), time.Since(began).Round(time.Millisecond))
			rabbittest.Evidence(t, b)
			rabbittest.Remove(t, cfg)
		})
	}
}

// conform runs the case.
func conform(t *testing.T, b *rabbit.Broker, cfg backend.Config) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	around, err := rabbitworld.Open(ctx, rabbitworld.Config{URL: cfg.URL, Clock: b})
	require.NoError(t, err)
	defer around.Close()
	conformance.Run(t, conformance.Harness{
		Only: []string{"long-delays-arrive"},
		Open: func(ctx context.Context) (delayer.Delayer, error) {
			return backend.Open(engine.WithWatchEvery(ctx, time.Minute), cfg)
		},
		World: around.World,
		Skip:  func(t *testing.T, reason string) { t.Fatal(reason) },
	})
}
