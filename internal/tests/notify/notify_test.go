// Package notify_test runs examples/notify on a real broker and database, and kills its processes.
package notify_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/notify"
	"github.com/delayer-go/delayer/internal/postgres/postgrestest"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// options has an early retry. After a restart of the broker a waiting queue may dead-letter before the
// queue of orders is ready. Nothing confirms such a message, and RabbitMQ publishes it again after
// three minutes, which is longer than the campaign waits before it takes orders for lost.
var options = rabbit.Options{Args: rabbit.DeadLetterRetry(10 * time.Second)}

func TestMain(m *testing.M) { rabbittest.Main(postgrestest.Wrap(m), options) }

// shortLadder is enough for the policies here. Each process looks at every queue when it starts.
const shortLadder = "DELAYER_BINARYLADDER_STEPS=1s,2s,4s"

// patience is generous: it bounds what hangs, and measures nothing.
const patience = 3 * time.Minute

// TestKilled: every order ends in state S, or in F and parked, whatever is killed.
func TestKilled(t *testing.T) {
	database := postgrestest.URL(t)
	b := rabbittest.Alone(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	defer rabbittest.Evidence(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := notify.Campaign{
		Folder: t.TempDir(), Database: database, Broker: b.URL(), Restart: b.Restart, Name: rabbittest.Prefix(t), Env: []string{shortLadder},
		Orders: 300, Intervals: []time.Duration{time.Second, 2 * time.Second},
		WorkerKill: 3, RelayKill: 2, Restarts: 1, Random: rand.New(rand.NewPCG(seed, 0)), Logf: t.Logf,
	}.Run(ctx)
	require.NoError(t, err)
	t.Logf("%+v", a)
	assert.Empty(t, a.Problems())
	assert.Zero(t, a.Resent, "the sweep had nothing to do")
	assert.Equal(t, 300, a.Orders)
	assert.Positive(t, a.Sent)
	assert.Positive(t, a.Failed)
}
