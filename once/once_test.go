package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/once"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errFailed = errors.New("failed")

func TestID(t *testing.T) {
	sealed := amqp091.Table{delayer.Header: "abc1 1700000000000 1000 orders"}
	for name, c := range map[string]struct {
		d    amqp091.Delivery
		want string
	}{
		"its own":        {amqp091.Delivery{MessageId: "m", Headers: sealed}, "m"},
		"ours":           {amqp091.Delivery{Headers: sealed}, "x-delayer abc1"},
		"none":           {amqp091.Delivery{}, ""},
		"not a string":   {amqp091.Delivery{Headers: amqp091.Table{delayer.Header: 7}}, ""},
		"not understood": {amqp091.Delivery{Headers: amqp091.Table{delayer.Header: "abc"}}, ""},
	} {
		id, err := once.ID(c.d)
		assert.Equal(t, c.want, id, name)
		assert.Equal(t, c.want == "", errors.Is(err, once.ErrNoID), name)
	}
}

func TestHandler_NoID(t *testing.T) {
	h := once.Handler(once.NewMemory(time.Hour), func(context.Context, once.NoTx, amqp091.Delivery) error {
		t.Error("it ran")
		return nil
	})
	err := h(t.Context(), amqp091.Delivery{Exchange: "orders", RoutingKey: "paid"})
	require.ErrorIs(t, err, once.ErrNoID)
	require.ErrorContains(t, err, `from exchange "orders" with key "paid"`)
	require.ErrorContains(t, err, "set MessageId")
}

func TestMemory_SucceedsOnce(t *testing.T) {
	runs, outcome := 0, errFailed
	h := once.Handler(once.NewMemory(time.Hour), func(context.Context, once.NoTx, amqp091.Delivery) error {
		runs++
		return outcome
	})
	d := amqp091.Delivery{MessageId: "m"}
	require.ErrorIs(t, h(t.Context(), d), errFailed)
	outcome = nil
	require.NoError(t, h(t.Context(), d), "after a failure it runs again")
	require.NoError(t, h(t.Context(), d))
	assert.Equal(t, 2, runs)
}

func TestMemory_PanicIsNoSuccess(t *testing.T) {
	store := once.NewMemory(time.Hour)
	assert.Panics(t, func() {
		_ = store.Do(t.Context(), "m", func(context.Context, once.NoTx) error { panic("no") })
	})
	ran := false
	require.NoError(t, store.Do(t.Context(), "m", func(context.Context, once.NoTx) error { ran = true; return nil }))
	assert.True(t, ran)
}

func TestMemory_DuplicateWaitsForTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := once.NewMemory(time.Hour)
		runs, outcome, release := 0, errFailed, make(chan struct{})
		do := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() {
				ended <- store.Do(ctx, "m", func(context.Context, once.NoTx) error {
					runs++
					<-release
					return outcome
				})
			}()
			synctest.Wait()
			return ended
		}
		first, second := do(t.Context()), do(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		third := do(ctx)
		assert.Equal(t, 1, runs)
		cancel()
		require.ErrorIs(t, <-third, context.Canceled)

		release <- struct{}{}
		require.ErrorIs(t, <-first, errFailed)
		synctest.Wait()
		assert.Equal(t, 2, runs, "the first has failed: the second runs")
		outcome = nil
		fourth := do(t.Context())
		release <- struct{}{}
		require.NoError(t, <-second)
		require.NoError(t, <-fourth)
		assert.Equal(t, 2, runs, "the second has succeeded: the fourth does not run")
	})
}

func TestMemory_ForgetsByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, runs := once.NewMemory(time.Hour), 0
		do := func() {
			require.NoError(t, store.Do(t.Context(), "m", func(context.Context, once.NoTx) error { runs++; return nil }))
		}
		do()
		time.Sleep(time.Hour)
		do()
		assert.Equal(t, 1, runs)
		time.Sleep(time.Hour)
		do()
		assert.Equal(t, 2, runs)
	})
}
