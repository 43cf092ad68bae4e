package satellites_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

// TestRelay_SlowDestination: rows for a queue that does not confirm lie among those for another.
// These are published at once, and none of them twice. When the queue confirms again, it gets its
// own.
func TestRelay_SlowDestination(t *testing.T) {
	pool, _ := database(t)
	b := rabbittest.Broker(t)
	const rows, every = 3000, 60
	rig := rabbittest.NewRig(t, b)
	good, stuck := rig.Queue("good", nil), rig.Queue("stuck", amqp091.Table{"x-queue-type": "quorum"})
	arrived := rig.Consume(good)
	resume := rabbittest.Suspend(t, b, stuck)
	var goods, stucks []string
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for i := range rows {
			id, queue := fmt.Sprintf("m%05d", i), good
			if i%every == 0 {
				queue = stuck
				stucks = append(stucks, id)
			} else {
				goods = append(goods, id)
			}
			if err := outbox.Enqueue(t.Context(), tx, "", queue, 0, amqp091.Publishing{MessageId: id}); err != nil {
				return err
			}
		}
		return nil
	}))
	stop := relay(t, pool, rabbittest.Open(t, config(t, b)), outbox.Config{MaxPause: 2 * time.Second})
	began := time.Now()
	came := collect(t, arrived, goods)
	t.Logf("%d messages arrived within %v", len(goods), time.Since(began))
	require.Eventually(t, func() bool {
		l, err := outbox.ReadLag(t.Context(), pool)
		return assert.NoError(t, err) && l == outbox.Lag{Failed: int64(len(stucks))}
	}, rabbittest.Patience, 20*time.Millisecond, "the good ones are done, the others failed")
	failures, err := outbox.Failures(t.Context(), pool, rows)
	require.NoError(t, err)
	for _, f := range failures {
		assert.Equal(t, stuck, f.Key)
		assert.Contains(t, f.Err, "confirm")
	}
	resume()
	collect(t, rig.Consume(stuck), stucks)
	empty(t, pool)
	stop()
	enqueue(t, pool, good, 0, "sentinel")
	relay(t, pool, rabbittest.Open(t, config(t, b)), outbox.Config{})
	for id, n := range collect(t, arrived, []string{"sentinel"}) {
		came[id] += n
	}
	for id, n := range came {
		assert.Equal(t, 1, n, "message %s", id)
	}
}
