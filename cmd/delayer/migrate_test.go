package main

import (
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestMigrateSteps is the journey of one exchange, there and back and to its end.
func TestMigrateSteps(t *testing.T) {
	b := rabbittest.Alone(t)
	if !b.HasPlugin(rabbittest.DelayedMessages) {
		rabbittest.Skipf(t, "the broker has no plugin %s", rabbittest.DelayedMessages)
	}
	const settings = "binaryladder:\n  steps: [1s, 2s, 4s, 8s, 16s, 32s]\n"
	address := vhost(t, b)
	file := "url: " + address + "\nmanagement: " + b.Management() + "\n" + settings
	config := configFile(t, file)
	step := func(status int, args ...string) (stdout, stderr string) {
		t.Helper()
		got, stdout, stderr := command(t.Context(), t, append(append([]string{"migrate"}, args...), "--config", config)...)
		t.Logf("$ delayer migrate %s\n%s%s", strings.ReplaceAll(strings.Join(args, " "), b.EvalCommand(), "rabbitmqctl"), stdout, stderr)
		require.Equal(t, status, got, stdout+stderr)
		return stdout, stderr
	}
	const x = "--exchange=orders"
	ctl := "--rabbitmqctl=" + b.EvalCommand()
	ch := channel(t, address)
	require.Eventually(t, func() bool { // the API may answer a moment after the rest
		status, _, _ := command(t.Context(), t, "migrate", "assess", ctl, "--config", config)
		return status == exitOK
	}, time.Minute, 100*time.Millisecond)
	stdout, _ := step(exitOK, "assess", ctl)
	require.Contains(t, stdout, "there is nothing to migrate")
	_, stderr := step(exitFailed, "switch", x, "--mode=in-place", "--yes", ctl)
	require.Contains(t, stderr, "it does not exist")

	delayed := func() {
		require.NoError(t, ch.ExchangeDeclare("orders", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
		require.NoError(t, ch.QueueBind("q", "#", "orders", false, nil))
	}
	_, err := ch.QueueDeclare("q", true, false, false, false, nil)
	require.NoError(t, err)
	delayed()
	rabbitmqctl := "--rabbitmqctl=" + b.CtlCommand()
	stdout, _ = step(exitOK, "assess", rabbitmqctl)
	require.Regexp(t, `orders +topic +- +0 +- +switch\n`, stdout)
	require.Contains(t, stdout, "Nothing stands in the way. Next: delayer migrate switch")
	_, stderr = step(exitFailed, "assess", "--rabbitmqctl=/no/such/rabbitmqctl")
	require.Contains(t, stderr, "/no/such/rabbitmqctl")
	_, stderr = step(exitFailed, "switch", x, "--mode=in-place", ctl)
	require.Contains(t, stderr, "--yes")
	stdout, _ = step(exitOK, "evacuate", "--exchange=oders", ctl)
	require.Contains(t, stdout, `nothing waits for ["oders"] (is --exchange right?)`)
	stdout, _ = step(exitOK, "switch", x, "--mode=in-place", "--yes", ctl)
	require.Contains(t, stdout, "exchange orders is an ordinary exchange now, with 1 binding\nit was there all the time")
	stdout, _ = step(exitOK, "rollback", x, ctl)
	require.Contains(t, stdout, "an exchange of the plugin now")
	_, stderr = step(exitFailed, "retire", x, ctl)
	require.Contains(t, stderr, "still the plugin's")

	stdout, _ = step(exitOK, "switch", x, "--mode=serve", "--yes", rabbitmqctl)
	_, section, _ := strings.Cut(stdout, "undoes it until then\n")
	require.NoError(t, ch.Publish("orders", "key", false, false, amqp091.Publishing{MessageId: "for serve"}))
	stdout, _ = step(exitOK, "assess", ctl)
	require.Regexp(t, `orders +topic +serve +0 +- +retire\n`, stdout)
	s := serve(t, "serve", "--config", configFile(t, file+section))
	arrives(t, ch, "for serve")
	stdout, _ = step(exitOK, "assess", ctl)
	require.Regexp(t, `orders +topic +serve +0 +- +retire\n`, stdout)
	_, stderr = step(exitFailed, "switch", x, "--mode=in-place", "--yes", ctl)
	require.Contains(t, stderr, "rollback first")
	stdout, _ = step(exitOK, "rollback", x, ctl)
	require.Contains(t, stdout, "take the exchange out of its configuration then")
	require.Equal(t, exitOK, s.stop())
	step(exitOK, "switch", x, "--mode=serve", "--yes", ctl)
	stdout, _ = step(exitOK, "retire", x, ctl)
	require.Contains(t, stdout, "exchange orders is retired: the plugin is not needed for it, and its record is deleted\ndelayer serve goes on")

	require.NoError(t, ch.ExchangeDelete("orders", false, false))
	delayed()
	require.NoError(t, ch.Publish("orders", "key", false, false, amqp091.Publishing{MessageId: "evacuated", Headers: amqp091.Table{"x-delay": int64(20_000)}}))
	step(exitOK, "switch", x, "--mode=in-place", "--yes", ctl)
	_, stderr = step(exitFailed, "retire", x, ctl)
	require.Contains(t, stderr, "the plugin holds 1 message for exchange \"orders\", the last due in ")
	stdout, _ = step(exitOK, "evacuate", "--leave=10s", ctl)
	require.Contains(t, stdout, "1         were moved: published through the Delayer")
	stdout, _ = step(exitOK, "retire", x, ctl)
	require.Contains(t, stdout, "rabbitmq-plugins disable rabbitmq_delayed_message_exchange")
	stdout, _ = step(exitOK, "assess", ctl)
	require.Contains(t, stdout, "no migration of this prefix")
	stdout, _ = step(exitOK, "retire", x, ctl) // the first run may have been killed at its end
	require.Contains(t, stdout, "is retired already")

	require.NoError(t, ch.ExchangeDeclare("gone", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	require.NoError(t, ch.Publish("gone", "key", false, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": int64(60_000)}}))
	require.NoError(t, ch.ExchangeDelete("gone", false, false))
	stdout, _ = step(exitOK, "evacuate", "--leave=10s", ctl)
	require.Contains(t, stdout, `1 stay: exchange "gone": `)

	require.NoError(t, b.Restart(t.Context()))
	ch = channel(t, address)
	require.NoError(t, ch.ExchangeDeclare("orders", "topic", true, false, false, false, nil), "what the node changed is on disk")
	arrives(t, ch, "evacuated")
}

// TestMigrate_NothingToDo: what is no exchange of the plugin's is said before anybody is asked to agree.
func TestMigrate_NothingToDo(t *testing.T) {
	b := rabbittest.Broker(t)
	if b.Management() == "" {
		rabbittest.Skipf(t, "the broker has no management API")
	}
	config := configFile(t, "url: "+vhost(t, b)+"\nmanagement: "+b.Management()+"\n")
	for args, want := range map[string]string{
		"switch --mode=in-place --exchange=missing": "it does not exist",
		"switch --mode=serve --exchange=amq.topic":  "its type is topic",
	} {
		args := append(strings.Fields("migrate "+args), "--rabbitmqctl=/no/such/rabbitmqctl", "--config", config)
		status, stdout, stderr := command(t.Context(), t, args...)
		require.Equal(t, exitFailed, status, args)
		require.Contains(t, stderr, want)
		require.Empty(t, stdout)
	}
}

// arrives waits for a message in queue q.
func arrives(t *testing.T, ch *amqp091.Channel, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		d, ok, err := ch.Get("q", true)
		return ok && err == nil && d.MessageId == id
	}, time.Minute, 100*time.Millisecond)
}
