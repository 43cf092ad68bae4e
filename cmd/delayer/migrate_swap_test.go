package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/standing"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMigrateSteps_Usage(t *testing.T) {
	for args, says := range map[string]string{
		"prepare":                                    "--exchange",
		"switch --exchange x":                        "--mode",
		"rollback":                                   "--exchange",
		"status --pending":                           "--pending needs --rabbitmqctl",
		"status --output yaml":                       "--output must be one of",
		"retire --exchange x --force y":              `--force: "y" is not the exchange's name, "x"`,
		"switch --exchange x --mode no":              "--mode must be one of",
		"switch --exchange= --mode serve --yes":      "the name is empty",
		"switch --exchange x --mode in-place --to y": "--to is for --mode serve",
	} {
		status, _, stderr := command(t.Context(), t, append([]string{"migrate"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, status, args)
		require.Contains(t, stderr, says)
	}
}

func TestMigratePrepare_DryRun(t *testing.T) {
	status, stdout, stderr := command(t.Context(), t, "migrate", "prepare", "--exchange", "x", "--url", "amqp://nobody:hunter2@127.0.0.1:1/", "--dry-run")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "delayer.ladder")
	require.Contains(t, stdout, record.Queue("delayer", "x"))
}

// TestMigrateSteps is the journey of one exchange, there and back and to its end. What changes the
// exchange on the node does so by rabbitmqctl; elsewhere erl_call stands for it where it can.
func TestMigrateSteps(t *testing.T) {
	b := rabbittest.Alone(t)
	if !b.HasPlugin(rabbittest.DelayedMessages) {
		rabbittest.Skipf(t, "the broker has no plugin %s", rabbittest.DelayedMessages)
	}
	address, rabbitmqctl, quick := vhost(t, b), b.CtlCommand(), b.EvalCommand()
	config := configFile(t, "url: "+address+"\nmanagement: "+b.Management()+"\nbinaryladder:\n  steps: [1s, 2s, 4s, 8s, 16s, 32s]\n")
	step := func(status int, args ...string) (stdout, stderr string) {
		t.Helper()
		got, stdout, stderr := command(t.Context(), t, append(append([]string{"migrate", args[0]}, args[1:]...), "--config", config)...)
		t.Logf("$ delayer migrate %s\n%s%s", strings.NewReplacer(rabbitmqctl, "rabbitmqctl", quick, "rabbitmqctl").Replace(strings.Join(args, " ")), stdout, stderr)
		require.Equal(t, status, got, stderr)
		return stdout, stderr
	}
	const x = "--exchange=orders"
	ctl := "--rabbitmqctl=" + quick
	ch := channel(t, address)

	_, stderr := step(exitFailed, "prepare", x)
	require.Contains(t, stderr, "it does not exist")
	require.NoError(t, ch.ExchangeDeclare("orders", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	_, err := ch.QueueDeclare("q", true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind("q", "#", "orders", false, nil))
	_, stderr = step(exitFailed, "switch", x, "--mode=in-place", "--yes")
	require.Contains(t, stderr, "prepare first")
	stdout, stderr := step(exitOK, "prepare", x)
	require.Contains(t, stderr, "declaring ")
	require.Contains(t, stdout, "exchange orders is prepared")
	stdout, _ = step(exitOK, "prepare", x)
	require.Contains(t, stdout, "nothing changed")
	_, stderr = step(exitFailed, "switch", x, "--mode=in-place")
	require.Contains(t, stderr, "--yes")
	for _, mistyped := range [][]string{{"evacuate", "--dry-run"}, {"drain"}} {
		_, stderr = step(exitFailed, append(mistyped, "--exchange=oders", ctl)...)
		require.Contains(t, stderr, `exchange "oders" does not exist in vhost "`+address[strings.LastIndex(address, "/")+1:]+`", and nothing waits for it`)
	}
	stdout, _ = step(exitOK, "drain", x, ctl)
	require.Contains(t, stdout, "The plugin has nothing left")
	stdout, stderr = step(exitOK, "switch", x, "--mode=in-place", "--yes")
	require.Contains(t, stdout, "exchange orders is an ordinary exchange now, with 1 binding\nit was away for at most")
	require.Contains(t, stderr, "what falls due then is lost")
	stdout, _ = step(exitOK, "rollback", x)
	require.Contains(t, stdout, "an exchange of the plugin now")

	stdout, _ = step(exitOK, "switch", x, "--mode=serve", "--yes", "--rabbitmqctl="+rabbitmqctl)
	require.Contains(t, stdout, "it was there all the time")
	_, section, _ := strings.Cut(stdout, "undoes it until then\n")
	serving := configFile(t, "url: "+address+"\nmanagement: "+b.Management()+"\nbinaryladder:\n  steps: [1s, 2s, 4s, 8s, 16s, 32s]\n"+section)
	require.NoError(t, ch.Publish("orders", "key", false, false, amqp091.Publishing{MessageId: "for serve"}))
	stdout, _ = step(exitOK, "status")
	require.Contains(t, stdout, "delayer serve: it is not running for this exchange. Then drain or evacuate, then retire")
	s := serve(t, "serve", "--config", serving)
	require.Eventually(t, func() bool { d, ok, err := ch.Get("q", true); return ok && err == nil && d.MessageId == "for serve" }, time.Minute, 100*time.Millisecond)
	code, stdout, stderr := command(t.Context(), t, "status", "--config", config, "--fail-if=others>0")
	require.Equal(t, exitOK, code, "%s%s", stdout, stderr)
	stdout, _ = step(exitOK, "status", "--output=json", "--pending", ctl)
	var status struct{ Exchanges []standing.Exchange }
	require.NoError(t, json.Unmarshal([]byte(stdout), &status))
	require.Len(t, status.Exchanges, 1)
	require.Equal(t, record.Switched, status.Exchanges[0].Step)
	require.Zero(t, *status.Exchanges[0].Pending)
	require.Equal(t, "retire", status.Exchanges[0].Next)
	require.Equal(t, "orders.delivery", status.Exchanges[0].Target)

	_, stderr = step(exitFailed, "switch", x, "--mode=in-place", "--yes", ctl)
	require.Contains(t, stderr, "rollback first")
	stdout, _ = step(exitOK, "rollback", x, ctl)
	require.Contains(t, stdout, "take the exchange out of its configuration, and run this again")
	_, stderr = step(exitFailed, "rollback", x, ctl)
	require.Contains(t, stderr, "is consumed")
	require.Equal(t, exitOK, s.stop())
	stdout, _ = step(exitOK, "rollback", x, ctl)
	require.Contains(t, stdout, "what delayer serve needed was removed")
	step(exitOK, "switch", x, "--mode=serve", "--to=elsewhere", "--yes", ctl)
	stdout, _ = step(exitOK, "retire", x, ctl)
	require.Contains(t, stdout, "exchange orders is retired: the plugin is not needed for it, and its record is deleted\ndelayer serve goes on")
	require.NoError(t, ch.ExchangeDelete("orders", false, false))
	_, err = ch.QueueDelete("delayer.serve.queue.orders", false, false, false)
	require.NoError(t, err)
	require.NoError(t, ch.ExchangeDeclare("orders", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	require.NoError(t, ch.QueueBind("q", "#", "orders", false, nil))
	step(exitOK, "prepare", x)
	step(exitOK, "switch", x, "--mode=in-place", "--yes", ctl)
	stdout, _ = step(exitOK, "status")
	require.Contains(t, stdout, "drain or evacuate, then retire")
	_, stderr = step(exitFailed, "retire", x)
	require.Contains(t, stderr, "without --rabbitmqctl")
	stdout, _ = step(exitOK, "retire", x, ctl)
	require.Contains(t, stdout, "rabbitmq-plugins disable rabbitmq_delayed_message_exchange")
	stdout, _ = step(exitOK, "status")
	require.Contains(t, stdout, "no migration of this prefix")
	stdout, _ = step(exitOK, "retire", x, ctl)
	require.Contains(t, stdout, "exchange orders needs no plugin: its type is topic", "the first run may have been killed at its end")

	require.NoError(t, ch.ExchangeDeclare("unused", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	require.NoError(t, ch.QueueBind("q", "key", "unused", false, nil))
	step(exitOK, "prepare", "--exchange=unused")
	stdout, stderr = step(exitFailed, "retire", "--exchange=unused", "--watch=1s", ctl)
	require.Contains(t, stdout, "Exchange unused was not switched: it is still the plugin's. This deletes it, with 1 binding.")
	require.Contains(t, stderr, "give --yes to agree")
	require.NoError(t, ch.ExchangeDeclarePassive("unused", "topic", true, false, false, false, nil), "nobody has agreed")
	stdout, _ = step(exitOK, "retire", "--exchange=unused", "--watch=1s", "--yes", ctl)
	require.Contains(t, stdout, `exchange unused of type x-delayed-message, routing as topic, was deleted, with 1 binding:
  exchange "unused" to queue "q", key "key"
exchange unused is retired: the plugin is not needed for it, and its record is deleted
`)
	require.NoError(t, ch.ExchangeDeclare("half", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	step(exitOK, "prepare", "--exchange=half")
	require.NoError(t, ch.ExchangeDelete("half", false, false)) // as a run does that is killed then
	step(exitOK, "retire", "--exchange=half", ctl)
	require.NoError(t, ch.ExchangeDeclare("gone", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	require.NoError(t, ch.Publish("gone", "key", false, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": int64(60_000)}}))
	require.NoError(t, ch.ExchangeDelete("gone", false, false))
	stdout, stderr = step(exitFailed, "evacuate", "--leave=10s", ctl)
	require.Contains(t, stdout, `1         were refused, and are in the queue "delayer.migration.refused"; the next run tries them again`)
	require.Contains(t, stderr, "the Delayer refused 1 message")
	require.Error(t, ch.ExchangeDeclarePassive("unused", "topic", true, false, false, false, nil))

	require.NoError(t, b.Restart(t.Context()))
	ch = channel(t, address)
	require.NoError(t, ch.ExchangeDeclare("orders", "topic", true, false, false, false, nil), "what the node changed is on disk")
	require.NoError(t, ch.Publish("orders", "key", false, false, amqp091.Publishing{}))
	require.Eventually(t, func() bool { _, ok, err := ch.Get("q", true); return ok && err == nil }, time.Minute, 100*time.Millisecond)
}
