package broker_test

import (
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestVisibleExchange: a consumer sees the routing key of the publisher, and the exchange that
// docs/choosing.md says. Frameworks publish a retry there. It arrives if that is the user's own
// exchange, or if they publish the headers too; otherwise it is kept.
func TestVisibleExchange(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     backend.Config
		visible string // PREFIX is put before it; empty: the destination
	}{
		"ladder": {backend.Config{BinaryLadder: binaryladder.Config{Tick: tick, Steps: "100ms,200ms"}}, ".ladder.step.100ms"},
		"tiers":  {backend.Config{Backend: fixedtiers.Name, FixedTiers: fixedtiers.Config{Tiers: []time.Duration{tick}}}, ".delivery"},
		"slots":  {backend.Config{Backend: controller.Name}, ""},
		"rounds": {backend.Config{Backend: controller.Name, Controller: controller.Config{Wheel: controller.Rounds, Levels: 5, Tick: tick}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setUp(t, c.cfg)
			for _, to := range []string{"", b.exchange()} {
				require.NoError(t, b.d.Publish(t.Context(), to, b.queue, tick, amqp091.Publishing{Headers: amqp091.Table{"CC": []any{"~"}, "BCC": []any{"copy"}}}))
				d := rabbittest.Next(t, b.got)
				visible := to
				if c.visible != "" {
					visible = b.cfg.Prefix + c.visible
				}
				require.Equal(t, []string{visible, b.queue}, []string{d.Exchange, d.RoutingKey})
				require.NotContains(t, fmt.Sprint(d.Headers), "BCC")

				require.NoError(t, b.Ch.PublishWithContext(t.Context(), d.Exchange, d.RoutingKey, true, false, amqp091.Publishing{Headers: d.Headers, Body: []byte("answer")}))
				answer := rabbittest.Next(t, b.got)
				require.Equal(t, "answer", string(answer.Body))
				require.Equal(t, to, answer.Exchange, "it does not wait again")

				require.NoError(t, b.Ch.PublishWithContext(t.Context(), d.Exchange, d.RoutingKey, true, false, amqp091.Publishing{Body: []byte("bare")}))
				if c.visible == "" {
					require.Equal(t, "bare", string(rabbittest.Next(t, b.got).Body))
					continue
				}
				kept := b.Take(b.cfg.Prefix + ".unroutable")
				require.Equal(t, []string{"bare", b.queue}, []string{string(kept.Body), kept.RoutingKey})
			}
		})
	}
}
