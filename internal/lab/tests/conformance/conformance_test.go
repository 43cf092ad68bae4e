// Package conformance_test runs the conformance suite on every backend, as package backend opens
// it.
package conformance_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/conformance/rabbitworld"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lab/subjects"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/topology"
)

// retry is soon enough to wait for it, and late enough for a machine under load. The suite does not
// ask how late a message is; the long campaign of cmd/faults keeps RabbitMQ's three minutes.
const retry = 20 * time.Second

// patience is longer than the broker takes to repeat a dead-lettering: it looks once in every retry
// for what was published so long ago (rabbit_fifo_dlx_worker:redeliver_messages/1), so up to twice
// that. What is misrouted then, and refused, goes to an exchange again after a minute.
const patience = 2*retry + time.Minute + 30*time.Second

var options = rabbit.Options{
	Plugins: []string{rabbittest.DelayedMessages},
	Args:    rabbit.DeadLetterRetry(retry),
}

func TestMain(m *testing.M) { rabbittest.Main(m, options) }

// A subject is a configuration that the suite runs on.
type subject struct {
	name string
	cfg  backend.Config
}

func suiteSubjects() []subject {
	tiers := []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second}
	ladder := backend.Config{BinaryLadder: binaryladder.Config{
		Tick: 10 * time.Millisecond, Steps: "10ms,20ms,40ms,80ms,160ms,320ms,640ms,1280ms,2560ms,5120ms,10240ms,20480ms",
	}}
	topic := ladder
	topic.BinaryLadder.Routing = "topic"
	out := []subject{ // the first take longest: their messages can be cancelled
		{"controller/slots", backend.Config{Backend: "controller"}},
		{"controller/rounds", backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Rounds, Tick: 100 * time.Millisecond}}},
		{"binaryladder/calendar", backend.Config{BinaryLadder: binaryladder.Config{Tick: 100 * time.Millisecond}}},
		{"binaryladder/list", ladder},
		{"binaryladder/topic", topic},
		{"fixedtiers/up", backend.Config{Backend: "fixedtiers", FixedTiers: fixedtiers.Config{Tiers: tiers}}},
		{"fixedtiers/exact", backend.Config{Backend: "fixedtiers", FixedTiers: fixedtiers.Config{Tiers: tiers, Rounding: "exact"}}},
	}
	for i := range out {
		out[i].name, out[i].cfg.QueueType = out[i].name+"/quorum", delayer.Quorum
	}
	for _, i := range []int{1, 2, 5} { // one of each kind that takes classic queues
		classic := out[i]
		classic.name, classic.cfg.QueueType = strings.TrimSuffix(classic.name, "/quorum")+"/classic", delayer.Classic
		out = append(out, classic)
	}
	var listed []backend.Config
	for _, s := range out {
		listed = append(listed, s.cfg)
	}
	for _, s := range subjects.Others(listed...) {
		out = append(out, subject{s.Name, s.Config})
	}
	return out
}

// watchEvery is longer than most cases last: a dozen Delayers, of up to 130 queues each, are open
// at a time. To look at all of that every five seconds keeps the broker busy.
const watchEvery = 10 * time.Second

// atATime is how many subjects are at work on the broker until they meet: they wait most of the
// time.
const atATime = 3

// TestConformance runs all subjects on one broker. They meet before the case that restarts it, so
// that it restarts once, with the messages of all of them.
func TestConformance(t *testing.T) {
	b := rabbittest.Broker(t)
	all := suiteSubjects()
	m := &meeting{members: len(all)}
	room := make(chan struct{}, atATime)
	var running sync.WaitGroup
	for _, s := range all {
		room <- struct{}{}
		running.Go(func() {
			leave := sync.OnceFunc(func() { <-room })
			defer leave()
			defer m.leave() // at once, if -run leaves this one out
			t.Run(s.name, func(t *testing.T) {
				if subjects.InExchange(s.cfg) {
					rabbittest.NeedPlugin(t, rabbittest.DelayedMessages)
				}
				if subjects.Hides(s.cfg) {
					rabbittest.NeedHiding(t) // package tests/backend shows that others are refused
				}
				cfg := s.cfg
				var said rabbittest.Logbook
				cfg.URL, cfg.Prefix, cfg.Logger = b.URL(), rabbittest.Prefix(t), said.Logger()
				said.ShowIfFailed(t, "its Delayers said, with those that the cases broke on purpose")
				conform(t, b, cfg, func(step func() error) error {
					leave()
					return m.together(step)
				})
			})
		})
	}
	running.Wait()
}

// added are the headers that a consumer sees beside Delayer's and those of dead-lettering.
var added = map[string][]string{"plugin": {"x-delay"}, "native": {"x-opt-delivery-time"}}

func conform(t *testing.T, b *rabbit.Broker, cfg backend.Config, together func(step func() error) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	// It keeps the topology while the suite opens and closes its own. It waits at the meeting with
	// many others: looking at the topology as often as usual would keep the broker busy.
	first, err := backend.Open(engine.WithWatchEvery(ctx, time.Minute), cfg)
	require.NoError(t, err)
	world := rabbitworld.Config{
		URL: b.URL(), Unroutable: cfg.Prefix + ".unroutable",
		OwnExchange: ownExchange(cfg),
		Cut:         func(context.Context) error { return conformance.Unable("cut: the broker is not ours") },
		Restart:     func(context.Context) error { return conformance.Unable("restart: the broker is not ours") },
	}
	if b.Owned() {
		world.Cut = func(ctx context.Context) error { return rabbittest.Cut(ctx, b, "delayer "+cfg.Prefix) }
		world.Suspend = b.Suspend
		world.Restart = func(ctx context.Context) error {
			return together(func() error { return b.Restart(ctx) })
		}
	}
	around, err := rabbitworld.Open(ctx, world)
	require.NoError(t, err)
	defer func() {
		rabbittest.Evidence(t, b)
		around.Close()
		require.NoError(t, first.Close())
		rabbittest.Remove(t, cfg)
	}()
	h := conformance.Harness{
		Open: func(ctx context.Context) (delayer.Delayer, error) {
			return backend.Open(engine.WithWatchEvery(ctx, watchEvery), cfg)
		},
		World:    around.World,
		User:     user(t, cfg.URL),
		Patience: patience,
		Added:    added[cfg.Backend],
		Skip:     func(t *testing.T, reason string) { rabbittest.Skipf(t, "%s", reason) },
	}
	const restart = "broker-restart"
	for _, c := range conformance.Cases() {
		if c.Name != restart && c.Name != "long-delays-arrive" { // see package longdelays
			h.Only = append(h.Only, c.Name)
		}
	}
	conformance.Run(t, h)
	_ = together(func() error { return nil })
	h.Only = []string{restart}
	conformance.Run(t, h)
	// A message in the misrouted queue is neither delivered nor kept as unroutable.
	ch := rabbittest.NewRig(t, b).Ch
	require.Eventually(t, func() bool {
		q, err := ch.QueueDeclarePassive(cfg.Prefix+".misrouted", true, false, false, false, nil)
		return err == nil && q.Messages == 0
	}, time.Minute, 100*time.Millisecond, "messages are left in the misrouted queue")
}

// ownExchange is the exchange that leads to the users' exchanges, or "" if the backend has none.
func ownExchange(cfg backend.Config) string {
	name := delivery.NewStage(cfg.Prefix, true).Exchanges()
	p, err := backend.Topology(cfg)
	if err != nil || !slices.ContainsFunc(p.Exchanges, func(x topology.Exchange) bool { return x.Name == name }) {
		return ""
	}
	return name
}

func user(t *testing.T, raw string) string {
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u.User.Username()
}
