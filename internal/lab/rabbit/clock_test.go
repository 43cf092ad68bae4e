package rabbit_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestForward: a message with an expiration of a year is still there a minute before that, and gone
// after. Nothing else notices: the connection stays open.
func TestForward(t *testing.T) {
	made := func(pid string) []string { // what libfaketime makes for a process
		files, err := filepath.Glob("/dev/shm/*faketime_*_" + pid)
		require.NoError(t, err)
		return files
	}
	var pid string
	t.Run("year", func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		b := rabbittest.Clocked(t, rabbit.Options{Logf: t.Logf})
		said, err := b.Ctl(t.Context(), "eval", "list_to_integer(os:getpid()).")
		require.NoError(t, err)
		pid = strings.TrimSpace(said)
		require.NotEmpty(t, made(pid))
		r := rabbittest.NewRig(t, b)
		dead := r.Queue("dead", nil)
		waits := r.Queue("waits", amqp091.Table{
			"x-message-ttl": year.Milliseconds(), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead,
		})
		arrived := r.Consume(dead)
		r.Publish("", waits, amqp091.Publishing{MessageId: "a year"})
		published := b.Now()
		for range 12 {
			require.NoError(t, b.Forward(t.Context(), year/12-5*time.Second))
		}
		require.Equal(t, 1, r.Count(waits), "a minute is left")
		require.Less(t, b.Now().Sub(published), year)
		require.NoError(t, b.Forward(t.Context(), time.Minute))
		require.Equal(t, "a year", rabbittest.Next(t, arrived).MessageId)
		require.False(t, r.Conn.IsClosed())
	})
	if pid != "" { // the test was not skipped
		require.Empty(t, made(pid))
	}
}

func TestForward_MachinesClock(t *testing.T) {
	b := rabbittest.Broker(t)
	require.ErrorIs(t, b.Forward(t.Context(), time.Hour), rabbit.ErrNoClock)
	require.WithinDuration(t, time.Now(), b.Now(), time.Minute)
}
