package rabbit_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestStart_AddressThatIsNoneOrOfADeadBroker(t *testing.T) {
	t.Setenv("DELAYER_BROKER", "")
	for _, address := range []string{
		"amqp://someone:s3cret@127.0.0.1:1/", // nobody listens there
		"amqp://someone:s3cret@host:port/", "http://someone:s3cret@host/", "someone:s3cret@host", "amqp://u:s3cret%@host",
	} {
		t.Setenv("AMQP_URL", address)
		_, err := rabbit.Start(t.Context(), rabbit.Options{})
		require.ErrorContains(t, err, "AMQP_URL", "no fallback to another broker")
		assert.NotErrorIs(t, err, rabbit.ErrNone)
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
	require.NoError(t, b.Close())
	publishOne(t, b, rabbittest.Prefix(t)) // it still answers
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
