package backend_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// setPolicy sets a policy on all names of a prefix, until it is lifted or the test ends.
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

// TestPolicies_DelayedRetry: what only makes messages late is told, and stops nobody.
func TestPolicies_DelayedRetry(t *testing.T) {
	t.Parallel()
	b := rabbittest.NeedSeries(t, 4, 3)
	if b.Management() == "" {
		rabbittest.Skipf(t, "needs a broker of our own with rabbitmq_management")
	}
	var log rabbittest.Logbook
	cfg := config(t)
	cfg.Backend, cfg.Management, cfg.Logger = "controller", b.Management(), log.Logger()
	setPolicy(t, b, cfg.Prefix, `{"delayed-retry-type":"all","delayed-retry-min":2000}`)
	d, queue := rabbittest.Open(t, cfg), rabbittest.Prefix(t)
	in := consume(t, channel(t), queue)
	require.NoError(t, d.Publish(within(t), "", queue, time.Second, amqp091.Publishing{}))
	rabbittest.Next(t, in)
	const want = "a policy sets delayed-retry-type to all and delayed-retry-min to 2000, which would make messages late"
	require.Contains(t, log.String(), "delayed messages may be late")
	require.Contains(t, log.String(), want)
	problems, err := backend.Verify(within(t), cfg)
	require.NoError(t, err)
	var found string
	for _, p := range problems {
		found += p.String() + "\n"
	}
	for _, name := range []string{"intake", "wait.4s.00"} {
		require.Contains(t, found, `queue "`+cfg.Prefix+`.controller.`+name+`": `+want)
	}
	require.Contains(t, found, `queue "`+cfg.Prefix+`.unroutable": `+want)
}

// TestPolicies_Removed: a quorum queue that was full tells those that dead-letter to it when there
// is room again, also when that is because the policy is gone.
func TestPolicies_Removed(t *testing.T) {
	t.Parallel()
	// What was refused is tried again after ten seconds instead of three minutes. If the refusal
	// were never taken back, 32 messages would pass each time, and all of them in a minute and a
	// half.
	b, ch := rabbittest.Broker(t), channel(t)
	const durable, autoDelete, exclusive, internal, noWait = true, false, false, false, false
	exchange := rabbittest.Prefix(t)
	require.NoError(t, ch.ExchangeDeclare(exchange, "fanout", durable, autoDelete, internal, noWait, nil))
	first := objects.WaitingQueue(exchange+".first", delayer.Quorum, 100*time.Millisecond, exchange)
	second := objects.WaitingQueue(exchange+".second", delayer.Quorum, time.Hour, exchange)
	for _, q := range []topology.Queue{first, second} {
		_, err := ch.QueueDeclare(q.Name, durable, autoDelete, exclusive, noWait, q.Args)
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = ch.QueueDelete(q.Name, false, false, noWait) })
	}
	t.Cleanup(func() { _ = ch.ExchangeDelete(exchange, false, noWait) })
	require.NoError(t, ch.QueueBind(second.Name, "", exchange, noWait, nil))
	lift := setPolicy(t, b, second.Name, `{"max-length":5}`)

	const messages, mandatory = 300, true
	require.NoError(t, ch.Confirm(noWait))
	var confirm *amqp091.DeferredConfirmation
	for range messages {
		var err error
		confirm, err = ch.PublishWithDeferredConfirm("", first.Name, mandatory, false, amqp091.Publishing{})
		require.NoError(t, err)
	}
	require.True(t, confirm.Wait())
	arrived := func(n int) func() error {
		return func() error {
			q, err := ch.QueueDeclarePassive(second.Name, durable, autoDelete, exclusive, noWait, second.Args)
			require.NoError(t, err)
			if q.Messages < n {
				return errors.New("not yet")
			}
			return nil
		}
	}
	require.NoError(t, until(t, arrived(5), func(err error) bool { return err == nil }), "full")
	require.Error(t, arrived(messages)())
	lift()
	require.NoError(t, until(t, arrived(messages), func(err error) bool { return err == nil }))
}

// until calls f until its error is as wanted.
func until(t *testing.T, f func() error, wanted func(error) bool) error {
	t.Helper()
	ctx := within(t)
	for ctx.Err() == nil {
		if err := f(); wanted(err) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("nothing happened within a minute")
	return nil
}

// TestController_EarlyExpiry: it knows how long a message has waited.
func TestController_EarlyExpiry(t *testing.T) {
	t.Parallel()
	var log rabbittest.Logbook
	cfg := config(t)
	cfg.Backend, cfg.Logger, cfg.Controller.Wheel = "controller", log.Logger(), controller.Rounds
	d, queue := rabbittest.Open(t, cfg), rabbittest.Prefix(t)
	in := consume(t, channel(t), queue)
	setPolicy(t, rabbittest.Broker(t), cfg.Prefix, `{"message-ttl":200}`)
	before, delay := time.Now(), 5*time.Second
	require.NoError(t, d.Publish(within(t), "", queue, delay, amqp091.Publishing{}))
	<-in
	require.GreaterOrEqual(t, time.Since(before), delay)
	require.Contains(t, log.String(), "a message expired too early and waits again")
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
	lift := setPolicy(t, b, cfg.Prefix, `{"max-length":1000000,"alternate-exchange":"x"}`)
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
	} {
		require.Contains(t, found, strings.Replace(want, "PREFIX", cfg.Prefix, 1))
	}
	require.NotContains(t, found, "make messages early", "no queue of this ladder waits for a minute")
	lift()
	_, err = b.Ctl(within(t), "clear_operator_policy", cfg.Prefix)
	require.NoError(t, err)
	require.Empty(t, func() []string {
		for ctx := within(t); ; { // the API is some seconds behind
			if found := verified(cfg); len(found) == 0 || ctx.Err() != nil {
				return found
			}
			time.Sleep(200 * time.Millisecond)
		}
	}())
	rabbittest.Open(t, cfg)

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
