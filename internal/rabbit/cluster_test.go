//go:build unix

package rabbit_test

import (
	"errors"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

func TestBrokersTakeConfigurationAndPause(t *testing.T) {
	t.Setenv("DELAYER_TEST_RABBITMQ_CONFIG", "channel_max = 77")
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b, err := rabbit.Start(t.Context(), rabbit.Options{Choice: kind, Config: "heartbeat = 17\n", Args: "-rabbit delayer_test 18"})
			if errors.Is(err, rabbit.ErrNone) {
				rabbittest.Skipf(t, "%v", err)
			}
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, b.Close()) })
			out, err := b.Ctl(t.Context(), "eval", "[application:get_env(rabbit, Key) || Key <- [heartbeat, delayer_test, channel_max]].")
			require.NoError(t, err)
			assert.Contains(t, out, "[{ok,17},{ok,18},{ok,77}]")

			require.NoError(t, b.Pause())
			_, err = amqp091.DialConfig(b.URL(), amqp091.Config{Dial: amqp091.DefaultDial(time.Second)})
			require.Error(t, err, "a paused broker answers nothing")
			require.NoError(t, b.Resume())
			publishOne(t, b.URL(), rabbittest.Prefix(t))
			require.NoError(t, b.Pause())
			require.NoError(t, b.Kill(), "a paused broker can be killed")
			require.Error(t, b.Pause(), "one that is down cannot be paused")
		})
	}
}
