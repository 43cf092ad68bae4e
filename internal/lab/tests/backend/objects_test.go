package backend_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/status"
)

// TestTopology_AppliedVerifiedRemoved: each backend, and each kind of drift by its name.
func TestTopology_AppliedVerifiedRemoved(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	if b.Management() == "" {
		rabbittest.Skipf(t, "needs a broker of our own with rabbitmq_management")
	}
	for _, name := range []string{"binaryladder", "fixedtiers", "controller"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			cfg.Backend, cfg.Management, cfg.Passive = name, b.Management(), true
			created, err := backend.Apply(within(t), cfg)
			require.NoError(t, err)
			require.Contains(t, created, `queue "`+cfg.Prefix+`.unroutable"`)
			t.Cleanup(func() { require.NoError(t, backend.Remove(within(t), cfg, true)) })
			created, err = backend.Apply(within(t), cfg)
			require.NoError(t, err)
			require.Empty(t, created, "it was there")

			d, queue := rabbittest.Open(t, cfg), rabbittest.Prefix(t)
			ch := channel(t)
			consume(t, ch, queue)
			if name != "fixedtiers" { // whose shortest tier is a minute
				require.NoError(t, d.Publish(within(t), "", queue, time.Second, amqp091.Publishing{}))
			}
			require.Empty(t, problems(t, cfg), "what a Delayer binds for itself is no drift")

			require.NoError(t, ch.QueueBind(cfg.Prefix+".unroutable", "", "amq.fanout", false, nil))
			require.NoError(t, ch.QueueUnbind(cfg.Prefix+".misrouted", "", cfg.Prefix+".unroutable", nil))
			require.Equal(t, []string{
				`missing: binding from exchange "PREFIX.unroutable" to queue "PREFIX.misrouted" with key "": it does not exist`,
				`surplus: binding from exchange "amq.fanout" to queue "PREFIX.unroutable" with key "": no Delayer has made it`,
			}, problems(t, cfg))
		})
	}
}

func problems(t *testing.T, cfg backend.Config) (list []string) {
	t.Helper()
	found, err := backend.Verify(within(t), cfg)
	require.NoError(t, err)
	for _, p := range found {
		list = append(list, strings.ReplaceAll(p.Kind+": "+p.String(), cfg.Prefix, "PREFIX"))
	}
	return list
}

// TestRemove_RefusesWhatIsInUse deletes no message that nobody has agreed to lose.
func TestRemove_RefusesWhatIsInUse(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	const delay = 25600 * time.Millisecond // in one queue, however long it takes to look there
	cfg.BinaryLadder.Steps = "100ms,200ms,400ms,800ms,1600ms,3200ms,6400ms,12800ms,25600ms"
	d, err := backend.Open(within(t), cfg)
	require.NoError(t, err)
	queue := rabbittest.Prefix(t)
	consume(t, channel(t), queue)
	require.NoError(t, d.Publish(within(t), "", queue, delay, amqp091.Publishing{}))
	err = backend.Remove(within(t), cfg, false)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "messages: 1, in "+cfg.Prefix+".ladder.wait.")
	require.NoError(t, d.Close())
	require.NoError(t, backend.Remove(within(t), cfg, true))
	require.NoError(t, backend.Remove(within(t), cfg, false), "nothing is left")
}

// TestRemove_Slots: the log of a prefix at rest has a bundle without messages.
func TestRemove_Slots(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Backend = "controller"
	d, err := backend.Open(within(t), cfg)
	require.NoError(t, err)
	ch, queue := channel(t), rabbittest.Prefix(t)
	arrived := consume(t, ch, queue)
	const soon = 5
	for range soon {
		require.NoError(t, d.Publish(within(t), "", queue, 100*time.Millisecond, amqp091.Publishing{}))
	}
	for range soon {
		<-arrived
	}
	r, err := status.Open(within(t), status.Config{Backend: cfg})
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the controller counts that
		s, err := r.Read(within(t))
		return err == nil && s.Waiting != nil && *s.Waiting == 0
	}, rabbittest.Patience, 20*time.Millisecond)
	require.NoError(t, r.Close())
	require.NoError(t, d.Close())
	require.NoError(t, backend.Remove(within(t), cfg, false), "all have arrived")

	cfg.Controller.PublishOnly = true
	d, err = backend.Open(within(t), cfg)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, d.Publish(within(t), "", queue, time.Hour, amqp091.Publishing{}))
	}
	require.NoError(t, d.Close())
	err = backend.Remove(within(t), cfg, false)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "messages, or bundles of them: 3, in "+cfg.Prefix+".controller.log (3)")
	require.NoError(t, backend.Remove(within(t), cfg, true))
}

// TestStatus shows what each backend keeps where. Of two processes with slots both count.
func TestStatus(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	cfg := config(t)
	cfg.Backend, cfg.Management = "controller", b.Management()
	rabbittest.Open(t, cfg)
	d, queue := rabbittest.Open(t, cfg), rabbittest.Prefix(t)
	ladder := cfg
	ladder.Backend = "binaryladder"
	second := rabbittest.Open(t, ladder)
	ch := channel(t)
	consume(t, ch, queue)
	for range 3 {
		require.NoError(t, d.Publish(within(t), "", queue, time.Hour, amqp091.Publishing{}))
	}
	require.NoError(t, second.Publish(within(t), "", queue, 0, amqp091.Publishing{}))
	require.NoError(t, ch.PublishWithContext(t.Context(), "", cfg.Prefix+".unroutable", true, false, amqp091.Publishing{
		Headers: amqp091.Table{delayer.Header: "ID 1767225600000 1000 orders"},
	}))
	r, err := status.Open(within(t), status.Config{Backend: cfg, Parked: []string{queue}})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	read := func() status.Status {
		s, err := r.Read(within(t))
		require.NoError(t, err)
		return s
	}
	require.Eventually(t, func() bool {
		s := read()
		inSlots := !slices.ContainsFunc(s.Backends[0].Due, func(d status.Due) bool { return !d.From.After(s.Time) })
		return s.Unroutable.Messages == 1 && s.Waiting != nil && *s.Waiting == 3 && inSlots
	}, time.Minute, 100*time.Millisecond)
	for range 2 { // to look changes nothing
		s := read()
		require.Len(t, s.Backends, 2)
		require.Equal(t, []string{"controller", "binaryladder"}, []string{s.Backends[0].Name, s.Backends[1].Name})
		require.Equal(t, []bool{true, false}, []bool{s.Backends[0].Configured, s.Backends[1].Configured})
		require.Equal(t, 3, *s.Backends[0].Waiting)
		require.Equal(t, 2, *s.Backends[0].Controllers)
		require.Equal(t, []status.Queue{{Name: queue, Consumers: 1}}, s.Parked)
		require.Empty(t, s.Backends[0].Missing)
		require.NotEmpty(t, s.Broker.Version)
		require.Equal(t, 0, *s.Backends[0].Unread)
		require.WithinDuration(t, time.Now(), *s.Backends[0].Counted, 3*time.Minute)
		due := 0
		for _, d := range s.Backends[0].Due {
			require.WithinRange(t, d.From, time.Now().Add(59*time.Minute), time.Now().Add(time.Hour))
			due += d.Messages
		}
		require.Equal(t, 3, due)
	}
	tiers := cfg
	tiers.Backend = "fixedtiers"
	rabbittest.Open(t, tiers)
	require.Len(t, read().Backends, 2, "what is not configured, and was not there, is not looked for each time")
	if b.Management() != "" {
		require.Empty(t, read().Policies)
		require.Empty(t, read().Unknown)
	}
}

// TestRemove_AsksQueuesThatAreSlow: the broker counts 0 messages for a quorum queue that does not
// answer within 250 ms, as while it is read from disk after a start.
func TestRemove_AsksQueuesThatAreSlow(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to make a queue slow")
	}
	cfg := config(t)
	cfg.QueueType = delayer.Quorum
	cfg.BinaryLadder = binaryladder.Config{Tick: time.Minute, Steps: "1m,2m"}
	queue := rabbittest.Prefix(t)
	consume(t, channel(t), queue)
	d, err := backend.Open(within(t), cfg)
	require.NoError(t, err)
	require.NoError(t, d.Publish(within(t), "", queue, time.Minute, amqp091.Publishing{}))
	require.NoError(t, d.Close())
	const slowFor = 2 * time.Second
	_, err = b.Ctl(within(t), "eval", fmt.Sprintf(
		`S = binary_to_existing_atom(<<"%%2F_%s.ladder.wait.1m">>), ok = sys:suspend(S), spawn(fun() -> timer:sleep(%d), sys:resume(S) end).`,
		cfg.Prefix, slowFor.Milliseconds()))
	require.NoError(t, err)
	err = backend.Remove(within(t), cfg, false)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "messages: 1, in "+cfg.Prefix+".ladder.wait.1m (1)")
	require.NoError(t, backend.Remove(within(t), cfg, true))
}
