package migrate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// evacuateVariable makes TestEvacuate_Child an evacuation, with these settings in JSON.
const evacuateVariable = "DELAYER_TEST_EVACUATE"

type evacuateSettings struct{ URL, Rabbitmqctl, Prefix, Exchange, Until string }

// reached is what the child prints at the place where it waits to be killed.
const reached = "reached"

// A stopper waits for its end at one place of an evacuation.
type stopper struct {
	evacuate.Nodes
	delayer.Delayer
	until     string
	published atomic.Int32
}

func (s *stopper) at(place string) {
	if s.until == place {
		fmt.Println(reached)
		select {}
	}
}

func (s *stopper) Remove(ctx context.Context, name, vhost string, list []node.Entry) (int, node.Clock, error) {
	s.at("staged")
	n, clock, err := s.Nodes.Remove(ctx, name, vhost, list)
	s.at("removed")
	return n, clock, err
}

func (s *stopper) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	err := s.Delayer.Publish(ctx, exchange, key, delay, msg)
	const some = 200
	if s.published.Add(1) >= some {
		s.at("published")
	}
	return err
}

// TestEvacuate_Child is no test: it is the process that TestEvacuate_SIGKILL kills.
func TestEvacuate_Child(t *testing.T) {
	text := os.Getenv(evacuateVariable)
	if text == "" {
		return
	}
	var s evacuateSettings
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	control, err := node.New(s.Rabbitmqctl)
	require.NoError(t, err)
	d, err := backend.Open(t.Context(), ladder(s.URL, s.Prefix))
	require.NoError(t, err)
	defer d.Close() //nolint:errcheck // each message is confirmed
	stop := &stopper{Nodes: control, Delayer: d, until: s.Until}
	account, err := evacuate.Job{
		Nodes: stop, Delayer: stop, Broker: broker.Options{URL: s.URL}, Prefix: s.Prefix, Vhost: "/", Exchanges: []string{s.Exchange},
	}.Run(t.Context())
	require.NoError(t, err)
	stop.at("end")
	fmt.Printf("%+v\n", account)
}

// TestEvacuate_SIGKILL: the tool is killed at each of its steps. Nothing is lost, and what waits in
// the Delayer twice has the same id.
func TestEvacuate_SIGKILL(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, "topic")
	prefix := rabbittest.Prefix(t)
	const messages = 1000
	for i := range messages {
		d.publish("key", time.Hour, amqp091.Publishing{MessageId: fmt.Sprint(i)})
	}
	for _, until := range []string{"staged", "removed", "published", "end"} {
		settings, err := json.Marshal(evacuateSettings{d.Broker.URL(), rabbitmqctl(t, d.Broker), prefix, d.exchange, until})
		require.NoError(t, err)
		child := exec.Command(os.Args[0], "-test.run=^TestEvacuate_Child$")
		child.Env = append(os.Environ(), evacuateVariable+"="+string(settings))
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != reached {
			t.Log(lines.Text())
		}
		assert.Equal(t, reached, lines.Text(), "it ended before it was %s", until)
		require.NoError(t, child.Process.Kill())
		_ = child.Wait()
	}
	assert.Zero(t, d.pending())
	ids, came := map[string]any{}, 0
	for _, got := range d.waiting(ladder(d.Broker.URL(), prefix)) {
		came++
		row := got.Headers[evacuate.RowHeader]
		assert.Len(t, row, 32)
		if id := ids[got.MessageId]; id != nil {
			assert.Equal(t, id, row)
		}
		ids[got.MessageId] = row
	}
	assert.Len(t, ids, messages)
	t.Logf("%d messages, %d came", messages, came)
}
