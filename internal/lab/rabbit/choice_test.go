package rabbit_test

import (
	"context"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestABrokerThatWasNamedAndIsDeadIsAnError(t *testing.T) {
	// Port 1 of the loopback interface: nobody listens there.
	t.Setenv("AMQP_URL", "amqp://someone:s3cret@127.0.0.1:1/")
	t.Setenv("DELAYER_BROKER", "")
	_, err := rabbit.Start(t.Context(), rabbit.Options{})
	require.Error(t, err, "no fallback to another broker")
	assert.NotErrorIs(t, err, rabbit.ErrNone)
	assert.Contains(t, err.Error(), "AMQP_URL")
	assert.Contains(t, err.Error(), "127.0.0.1:1")
	assert.NotContains(t, err.Error(), "s3cret")
}

func TestAnAddressThatIsNoneIsAnErrorWithoutThePassword(t *testing.T) {
	for _, address := range []string{
		"amqp://someone:s3cret@host:port/", "http://someone:s3cret@host/", "someone:s3cret@host", "amqp://u:s3cret%@host",
	} {
		t.Setenv("AMQP_URL", address)
		_, err := rabbit.Start(t.Context(), rabbit.Options{Choice: rabbit.Given})
		require.Error(t, err)
		assert.Contains(t, err.Error(), "AMQP_URL")
		assert.NotContains(t, err.Error(), "s3cret")
	}
}

func TestWrongPasswordIsNotPrinted(t *testing.T) {
	at, err := url.Parse(rabbittest.Broker(t).URL())
	require.NoError(t, err)
	at.User = url.UserPassword("guest", "s3cret")
	t.Setenv("AMQP_URL", at.String())
	_, err = rabbit.Start(t.Context(), rabbit.Options{Choice: rabbit.Given})
	require.ErrorContains(t, err, "403")
	assert.NotContains(t, err.Error(), "s3cret")
}

func TestABrokerThatIsGivenIsUsedAndLeftAlone(t *testing.T) {
	t.Setenv("AMQP_URL", rabbittest.Broker(t).URL())
	t.Setenv("DELAYER_BROKER", "")
	b, err := rabbit.Start(t.Context(), rabbit.Options{})
	require.NoError(t, err)
	assert.Equal(t, "AMQP_URL", b.How())
	assert.Equal(t, rabbittest.Broker(t).Version(), b.Version())
	assert.False(t, b.Owned())
	assert.ErrorIs(t, b.Stop(t.Context()), rabbit.ErrNotOwned)
	assert.ErrorIs(t, b.Kill(), rabbit.ErrNotOwned)
	assert.ErrorIs(t, b.Restart(t.Context()), rabbit.ErrNotOwned)
	_, err = b.CPU()
	assert.ErrorIs(t, err, rabbit.ErrNotOwned)
	_, err = b.Ctl(t.Context(), "status")
	assert.ErrorIs(t, err, rabbit.ErrNotOwned)
	assert.Equal(t, rabbittest.Broker(t).HasPlugin("rabbitmq_delayed_message_exchange"),
		b.HasPlugin("rabbitmq_delayed_message_exchange"), "seen over AMQP")
	require.NoError(t, b.Close())
	publishOne(t, b.URL(), rabbittest.Prefix(t)) // it still answers
}

func TestAChoiceThatThereIsNot(t *testing.T) {
	_, err := rabbit.Start(t.Context(), rabbit.Options{Choice: "kubernetes"})
	require.ErrorContains(t, err, "given, docker, node or none")
	t.Setenv("AMQP_URL", "")
	_, err = rabbit.Start(t.Context(), rabbit.Options{Choice: rabbit.Given})
	require.ErrorContains(t, err, "export AMQP_URL=")
}

func TestAnImageThatCannotBeHadIsAReasonToLookFurther(t *testing.T) {
	if os.Getenv("DELAYER_BROKER") == rabbit.None {
		rabbittest.Skipf(t, "no broker, as DELAYER_BROKER=none says")
	}
	t.Setenv("AMQP_URL", "")
	t.Setenv("DELAYER_BROKER", "")
	var told []string
	b, err := rabbit.Start(t.Context(), rabbit.Options{
		Image: "delayer.invalid/no-such-image:0",
		Logf:  func(format string, _ ...any) { told = append(told, format) },
	})
	if err != nil {
		require.ErrorIs(t, err, rabbit.ErrNone)
		return
	}
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	assert.Equal(t, "private node", b.How())
	assert.Contains(t, told, "no broker in Docker: %v")
}

func TestStart_None(t *testing.T) {
	t.Setenv("DELAYER_BROKER", rabbit.None)
	t.Setenv("AMQP_URL", "amqp://127.0.0.1:1")
	for _, kind := range append([]string{""}, kinds...) {
		_, err := rabbit.Start(t.Context(), rabbit.Options{Choice: kind})
		require.ErrorIs(t, err, rabbit.ErrNone, kind)
	}
	_, err := rabbit.StartCluster(t.Context(), rabbit.Options{}, 2)
	require.ErrorIs(t, err, rabbit.ErrNone)
}

func TestStartObeysItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, kind := range kinds {
		_, err := rabbit.Start(ctx, rabbit.Options{Choice: kind})
		assert.Error(t, err, kind)
	}
}
