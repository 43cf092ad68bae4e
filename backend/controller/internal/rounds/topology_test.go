package rounds

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

func TestWheel_Plan(t *testing.T) {
	w := Wheel{schedule: mustSchedule(t, 1, time.Second), names: names{"p"}, kind: delayer.Quorum}
	require.Equal(t, topology.Plan{
		Markers: []topology.Exchange{{Name: "p.controller", Kind: amqp091.ExchangeFanout, Alternate: "p:controller,levels=1,tick=1s,quorum"}},
		Exchanges: []topology.Exchange{
			{Name: "p.controller.intake", Kind: "fanout", Alternate: "p.unroutable"},
			{Name: "p.controller.enter", Kind: "fanout"}, // without an alternate: what it cannot route is returned
			{Name: "p.controller.wait.00", Kind: "fanout"},
		},
		Queues: []topology.Queue{
			{Name: "p.controller.intake", Role: role.Intake, Args: amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1 << 30), "x-overflow": "reject-publish", "x-max-length": objects.NeverFull}},
			{Name: "p.controller.wait.00", Args: amqp091.Table{
				"x-queue-type": "quorum", "x-message-ttl": int64(1001), "x-dead-letter-exchange": "p.controller.intake",
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-max-length": objects.NeverFull,
				"x-queue-leader-locator": "balanced",
			}},
		},
		Bindings: []topology.Binding{
			{Source: "p.controller.intake", Target: "p.controller.intake"},
			{Source: "p.controller.enter", Target: "p.controller.intake"},
			{Source: "p.controller.wait.00", Target: "p.controller.wait.00"},
		},
	}, w.Plan())
	w.kind = delayer.Classic
	require.Equal(t, amqp091.Table{"x-queue-type": "classic", "x-overflow": "reject-publish"}, w.Plan().Queues[0].Args)
}

func TestWheel_ConfigNamesEveryFieldThatMatters(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range []Wheel{
		{schedule: schedule{levels: 4, tick: time.Second}, names: names{"p"}, kind: delayer.Quorum},
		{schedule: schedule{levels: 5, tick: time.Second}, names: names{"p"}, kind: delayer.Quorum},
		{schedule: schedule{levels: 4, tick: time.Minute}, names: names{"p"}, kind: delayer.Quorum},
		{schedule: schedule{levels: 4, tick: time.Second}, names: names{"p"}, kind: delayer.Classic},
	} {
		require.False(t, seen[w.config()], w.config())
		seen[w.config()] = true
	}
}
