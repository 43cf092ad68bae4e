package migrate_test

import (
	"os"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// roadVariable names three images in Docker: the first two have the plugin, the last is of a series
// without Mnesia.
const roadVariable = "DELAYER_TEST_ROAD"

// TestRoad goes the whole road of an operator whose RabbitMQ 3.13 has the plugin, with messages
// pending: an upgrade to 4.2 with it, each step from the plugin to delayer serve, the metadata
// store, and an upgrade to 4.3, which has no plugin. Publishers publish to the exchange that they
// always knew.
func TestRoad(t *testing.T) {
	images := strings.Fields(os.Getenv(roadVariable))
	if len(images) != 3 {
		rabbittest.Skipf(t, "%s does not name images, as 'rabbitmq:3.13-delayed rabbitmq:4.2-delayed rabbitmq:4.3'", roadVariable)
	}
	program := build(t)
	b := rabbittest.Own(t, rabbit.Options{Choice: rabbit.Docker, Image: images[0], Plugins: []string{rabbittest.DelayedMessages, managementPlugin}})
	r := rehearse(t, b, program, rabbitmqctl(t, b), []string{"topic", "direct"})
	r.many, r.kills = 1000, []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}

	inDays := r.many / len(r.kinds) / 3
	stop := r.publishers(r.raw)
	r.pending(2*time.Second, 2*time.Minute, inDays)
	r.wholeStep("assess", "--rabbitmqctl", r.ctl)
	stop()
	r.upgrade(images[1])

	stop = r.publishers(r.raw)
	r.wholeStep("assess", "--rabbitmqctl", r.ctl)
	serve := r.startServe()
	r.switches("serve")
	r.step("evacuate", append(r.selection(), "--rabbitmqctl", r.ctl, "--leave", "10s")...)
	r.drain()
	r.retire()
	stop()
	require.Zero(t, r.inPlugin())
	serve.stop()
	_, err := b.Ctl(r.Context(), "enable_feature_flag", "all")
	require.NoError(t, err)
	r.upgrade(images[2])

	serve = r.startServe()
	stop = r.publishers(r.raw)
	before := r.account.Verdict().Delivered
	require.Eventually(t, func() bool { return r.account.Verdict().Delivered > before+100 }, rehearsalPatience, 100*time.Millisecond)
	stop()
	r.allArrive()
	serve.stop()
	r.inDays(inDays)
	r.report("road")
}

// upgrade upgrades the broker. Nobody uses it meanwhile.
func (r *rehearsal) upgrade(image string) {
	r.Helper()
	r.rest()
	require.NoError(r, r.Conn.Close())
	began, from := time.Now(), r.Broker.Version()
	require.NoError(r, r.Broker.Upgrade(r.Context(), image))
	r.Logf("from %s to %v in %v", from, r.Broker, time.Since(began).Round(time.Second))
	r.Connect(r.Broker.URL())
	r.fillers, r.ctl = []*amqp091.Connection{r.Conn}, rabbitmqctl(r.TB, r.Broker)
	r.configure()
	for _, kind := range r.kinds {
		r.consume(kind)
	}
}
