package backend_test

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

func setPolicy(t *testing.T, b *rabbit.Broker, prefix, definition string) (lift func()) {
	t.Helper()
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to set a policy")
	}
	name := rabbittest.Prefix(t)
	_, err := b.Ctl(within(t), "set_policy", name, "^"+prefix, definition)
	require.NoError(t, err)
	there := true
	lift = func() {
		if there {
			_, err := b.Ctl(within(t), "clear_policy", name)
			require.NoError(t, err)
		}
		there = false
	}
	t.Cleanup(lift)
	return lift
}

// until calls f until its error is as wanted.
func until(t *testing.T, f func() error, wanted func(error) bool) (err error) {
	t.Helper()
	require.Eventually(t, func() bool { err = f(); return wanted(err) }, rabbittest.Patience, 20*time.Millisecond)
	return err
}

// TestController_EarlyExpiry: it knows how long a message has waited.
func TestController_EarlyExpiry(t *testing.T) {
	t.Parallel()
	var rounds atomic.Int64
	cfg := config(t)
	cfg.Backend, cfg.Controller.Wheel = "controller", controller.Rounds
	cfg.Observer.Round = func(delayer.RoundEvent) { rounds.Add(1) }
	d, queue := rabbittest.Open(t, cfg), rabbittest.Prefix(t)
	in := consume(t, channel(t), queue)
	setPolicy(t, rabbittest.Broker(t), cfg.Prefix, `{"message-ttl":200}`)
	before, delay := time.Now(), 5*time.Second
	require.NoError(t, d.Publish(within(t), "", queue, delay, amqp091.Publishing{}))
	<-in
	require.GreaterOrEqual(t, time.Since(before), delay)
	const untouched = 6 // rounds at most, of 4 s, 512 ms and less
	require.Greater(t, rounds.Load(), int64(untouched), "it did not expire early")
}

// TestPolicies_ManagementAPI: Open refuses them, and Verify lists them all.
func TestPolicies_ManagementAPI(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	if b.Management() == "" {
		rabbittest.Skipf(t, "needs a broker of our own with rabbitmq_management")
	}
	cfg := config(t)
	cfg.Management, cfg.QueueType = b.Management(), "classic"
	verified := func(cfg backend.Config) (found []string) {
		problems, err := backend.Verify(within(t), cfg)
		require.NoError(t, err)
		for _, p := range problems {
			found = append(found, p.String())
		}
		return found
	}
	lift := setPolicy(t, b, cfg.Prefix, `{"max-length":1000000,"alternate-exchange":"x","federation-upstream":"x"}`)
	_, err := b.Ctl(within(t), "set_operator_policy", cfg.Prefix, "^"+cfg.Prefix, `{"message-ttl":60000,"expires":86400000}`, "--apply-to", "queues")
	require.NoError(t, err)
	_, err = backend.Open(within(t), cfg)
	require.ErrorIs(t, err, delayer.ErrConflict)
	require.ErrorContains(t, err, "policies")
	found := strings.Join(verified(cfg), "\n")
	for _, want := range []string{
		`queue "PREFIX.unroutable": a policy sets message-ttl to 60000, which would lose messages`,
		`queue "PREFIX.ladder.wait.400ms": a policy sets expires to 8.64e+07`,
		`queue "PREFIX.ladder.wait.400ms": a policy sets max-length to 1e+06`,
		`exchange "PREFIX.ladder.enter": a policy sets alternate-exchange`,
		`exchange "PREFIX.delivery": a policy sets federation-upstream to x, which would bring it messages of other brokers`,
		`queue "PREFIX.ladder.wait.400ms": a policy sets federation-upstream`,
	} {
		require.Contains(t, found, strings.Replace(want, "PREFIX", cfg.Prefix, 1))
	}
	require.NotContains(t, found, "make messages early", "no queue of this ladder waits for a minute")
	lift()
	_, err = b.Ctl(within(t), "clear_operator_policy", cfg.Prefix)
	require.NoError(t, err)
	require.EventuallyWithT(t, func(ct *assert.CollectT) { // the API is some seconds behind
		require.Empty(ct, verified(cfg))
	}, rabbittest.Patience, 200*time.Millisecond)
	wrong, err := url.Parse(cfg.Management)
	require.NoError(t, err)
	wrong.User = url.UserPassword("guest", "hunter2")
	cfg.Management = wrong.String()
	_, err = backend.Verify(context.Background(), cfg)
	require.ErrorIs(t, err, delayer.ErrAccess)
	require.NotContains(t, err.Error(), "hunter2")
	cfg.Management = ""
	_, err = backend.Verify(context.Background(), cfg)
	require.ErrorIs(t, err, delayer.ErrConfig)
}

// TestPolicies_Keys: each key that this series takes in a policy, its plugins' included, is one
// whose effect is known.
func TestPolicies_Keys(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	if !b.HasPlugin("rabbitmq_sharding") || !b.HasPlugin("rabbitmq_federation") {
		rabbittest.Skipf(t, "needs a broker of our own with RabbitMQ's plugins")
	}
	ask := func(expression string) (answer []string) {
		said, err := b.Ctl(within(t), "eval", `io:format("~s", [lists:join(",", lists:usort(`+expression+`))]).`)
		require.NoError(t, err)
		answer = strings.Split(strings.TrimSuffix(strings.TrimSpace(said), "ok"), ",")
		require.Greater(t, len(answer), 1, said)
		return answer
	}
	const registered = `{Key, Module} <- rabbit_registry:lookup_all(policy_validator) ++ rabbit_registry:lookup_all(operator_policy_validator)`
	shipped := ask(`[filename:basename(File, ".beam") || Folder <- string:tokens(rabbit_plugins:plugins_dir(), ":"), ` +
		`File <- filelib:wildcard(Folder ++ "/*/ebin/*.beam"), ` +
		`{ok, {_, [{attributes, All}]}} <- [beam_lib:chunks(File, [attributes])], ` +
		`{Is, Of} <- All, Is =:= behaviour orelse Is =:= behavior, lists:member(rabbit_policy_validator, Of)]`)
	require.Subset(t, ask(`[atom_to_list(Module) || `+registered+`]`), shipped, "a plugin that has keys is not enabled")
	plan := topology.Plan{Exchanges: []topology.Exchange{{Name: "name"}}, Queues: []topology.Queue{{Name: "name"}}}
	for _, key := range ask(`[atom_to_list(Key) || ` + registered + `]`) {
		set := map[string]objects.Policy{"name": {key: "x"}}
		_, unknown := objects.Unknown(objects.Harm(plan, objects.Policies{Queues: set, Exchanges: set}))
		require.Empty(t, unknown, "say in package objects what it does, and in docs/operating.md")
	}
}

// lookEvery is how often a test looks for what must happen: without a pause the broker would be
// busy with answers.
const lookEvery = 50 * time.Millisecond

// TestPublish_StrangersObject: a queue of ours that is somebody else's by now, with a TTL that makes
// messages early. Nothing is missing, no message is returned, and no management API tells. The next
// look finds it.
func TestPublish_StrangersObject(t *testing.T) {
	t.Parallel()
	var log rabbittest.Logbook
	cfg := config(t)
	cfg.QueueType, cfg.Logger = delayer.Classic, log.Logger()
	d, err := backend.Open(engine.WithWatchEvery(within(t), 100*time.Millisecond), cfg)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, d.Close())
		rabbittest.Remove(t, cfg)
	}()
	ch, queue := channel(t), rabbittest.Prefix(t)
	in := consume(t, ch, queue)
	const step, delay = "800ms", 800 * time.Millisecond
	publish := func(body string) error {
		return d.Publish(within(t), "", queue, delay, amqp091.Publishing{Body: []byte(body)})
	}
	require.NoError(t, publish("before"), "which declares the bindings of its route")

	object := cfg.Prefix + ".ladder.wait." + step
	_, err = ch.QueueDelete(object, false, false, false)
	require.NoError(t, err)
	_, err = ch.QueueDeclare(object, true, false, false, false, amqp091.Table{
		"x-message-ttl": int64(50), "x-dead-letter-exchange": cfg.Prefix + ".ladder.step." + step,
	})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(object, "~d:>"+step, cfg.Prefix+".ladder.enter", false, nil))

	refused := func() bool { return publish("before") != nil }
	require.Eventually(t, refused, time.Minute, lookEvery, "no look has found it")
	for range 10 {
		time.Sleep(lookEvery)
		err = publish("refused")
		require.ErrorIs(t, err, delayer.ErrConflict, "also after the next looks")
		require.ErrorContains(t, err, object)
	}
	require.NoError(t, d.Publish(within(t), "", queue, 0, amqp091.Publishing{}), "which needs none of them")

	_, err = ch.QueueDelete(object, false, false, false)
	require.NoError(t, err)
	var began time.Time
	require.Eventually(t, func() bool {
		began = time.Now()
		return publish("after") == nil
	}, time.Minute, lookEvery)
	for string(rabbittest.Next(t, in).Body) != "after" { // what was accepted before the look comes too
	}
	require.GreaterOrEqual(t, time.Since(began), delay)
	require.Equal(t, 1, strings.Count(log.String(), "has other arguments"))
}
