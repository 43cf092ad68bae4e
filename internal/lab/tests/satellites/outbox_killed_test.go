package satellites_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

// relayVariable makes the test binary a relay, with these settings in JSON.
const relayVariable = "DELAYER_TEST_RELAY"

type relaySettings struct{ Postgres, Broker, Prefix string }

func relayChild() error {
	var s relaySettings
	if err := json.Unmarshal([]byte(os.Getenv(relayVariable)), &s); err != nil {
		return err
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, s.Postgres)
	if err != nil {
		return err
	}
	cfg := backend.Config{BinaryLadder: binaryladder.Config{Steps: "1s"}}
	cfg.URL, cfg.Prefix, cfg.Logger = s.Broker, s.Prefix, silent
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	r, err := outbox.NewRelay(pool, d, outbox.Config{Batch: 100})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

func TestRelay_Killed(t *testing.T) {
	pool, address := database(t)
	b := rabbittest.Broker(t)
	name, deliveries := queue(t, b)
	settings, err := json.Marshal(relaySettings{address, b.URL(), rabbittest.Prefix(t)})
	require.NoError(t, err)
	start := func() *exec.Cmd {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), relayVariable+"="+string(settings))
		child.Stderr = os.Stderr
		require.NoError(t, child.Start())
		t.Cleanup(func() { _ = child.Process.Kill() }) // where the test ends before
		return child
	}
	ids := names(3000)
	enqueue(t, pool, name, 0, ids...)

	came := map[string]int{}
	for _, until := range []int{200, 1200, len(ids)} {
		child := start()
		for len(came) < until {
			d := rabbittest.Next(t, deliveries)
			assert.Equal(t, string(d.Body), d.MessageId, "a duplicate carries the same id")
			came[d.MessageId]++
		}
		if until == len(ids) {
			empty(t, pool)
		}
		require.NoError(t, child.Process.Kill())
		_ = child.Wait()
	}
	duplicates := -len(came)
	for _, n := range came {
		duplicates += n
	}
	t.Logf("%d messages, %d duplicates", len(came), duplicates)
	assert.Len(t, came, len(ids))
}
