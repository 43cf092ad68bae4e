package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestPlan(t *testing.T) {
	tiers := delayer.Limits{Max: time.Hour, Tiers: []time.Duration{10 * time.Second, time.Minute, time.Hour}}
	steps := delayer.Limits{Max: time.Hour}
	for _, c := range []struct {
		limits      delayer.Limits
		left        time.Duration
		delay, wait time.Duration
	}{
		{steps, -time.Second, 0, 0},
		{steps, time.Nanosecond, time.Nanosecond, 0},
		{steps, time.Hour, time.Hour, 0},
		{steps, 3 * time.Hour, time.Hour, 2 * time.Hour},
		{tiers, 0, 0, 0},
		{tiers, 10 * time.Second, 10 * time.Second, 0},
		{tiers, 9500 * time.Millisecond, 10 * time.Second, 0}, // what Enqueue and the relay took
		{tiers, 5 * time.Second, 0, 5 * time.Second},
		{tiers, 30 * time.Minute, 0, 29 * time.Minute}, // and then a tier of a minute
		{tiers, 3 * time.Hour, 0, 2 * time.Hour},
	} {
		delay, wait := plan(c.left, c.limits)
		assert.Equal(t, c.wait, wait, "%v with %v", c.left, c.limits.Tiers)
		if wait == 0 {
			assert.Equal(t, c.delay, delay, "%v with %v", c.left, c.limits.Tiers)
			assert.GreaterOrEqual(t, delay, c.left, "never early")
		}
	}
}

func TestJudge(t *testing.T) {
	r := &Relay{cfg: Config{MaxPause: time.Minute, Logger: slog.New(slog.DiscardHandler)}}
	batch := func(errs ...error) (items []*item) {
		for _, err := range errs {
			if err != nil {
				err = &delayer.Error{Op: "publish", Kind: err}
			}
			items = append(items, &item{err: err})
		}
		return items
	}
	away := batch(delayer.ErrNotSent, delayer.ErrUnroutable)
	require.ErrorIs(t, r.judge(away), delayer.ErrNotSent)
	assert.Zero(t, away[0].wait, "the broker is away: the message keeps its place")
	assert.Positive(t, away[1].wait)

	one := batch(delayer.ErrNotSent, nil, delayer.ErrUnknown)
	require.NoError(t, r.judge(one))
	assert.Positive(t, one[0].wait, "others were published: it is this message")
	assert.True(t, one[1].published())
	assert.Positive(t, one[2].wait)

	closed := batch(nil, delayer.ErrClosed)
	require.ErrorIs(t, r.judge(closed), delayer.ErrClosed)
	assert.Zero(t, closed[1].wait)
}

func TestErrorText(t *testing.T) {
	assert.Nil(t, errorText(nil))
	long := fmt.Sprintf("\xff\x00%2000s", "é")
	got := *errorText(errors.New(long))
	assert.LessOrEqual(t, len(got), maxError)
	assert.Equal(t, "??", got[:2])
}

func TestEnqueue_Refuses(t *testing.T) {
	deep := amqp091.Table{"list": []any{amqp091.Table{"\xff": 1}}}
	for name, c := range map[string]struct {
		queue string
		delay time.Duration
		msg   amqp091.Publishing
		kind  error
	}{
		"delay":       {"q", -1, amqp091.Publishing{}, delayer.ErrOutOfRange},
		"nowhere":     {"", 0, amqp091.Publishing{}, delayer.ErrInvalid},
		"expiration":  {"q", 0, amqp091.Publishing{Expiration: "1"}, delayer.ErrInvalid},
		"header type": {"q", 0, amqp091.Publishing{Headers: amqp091.Table{"x": struct{}{}}}, delayer.ErrInvalid},
		"header name": {"q", 0, amqp091.Publishing{Headers: deep}, delayer.ErrInvalid},
	} {
		// A nil Execer: nothing is written.
		require.ErrorIs(t, Enqueue(t.Context(), nil, "", c.queue, c.delay, c.msg), c.kind, name)
	}
}

func TestMicroseconds(t *testing.T) {
	assert.EqualValues(t, 0, microseconds(0))
	assert.EqualValues(t, 1, microseconds(1))
	assert.EqualValues(t, 1, microseconds(time.Microsecond))
	assert.EqualValues(t, 2, microseconds(time.Microsecond+1))
	assert.Equal(t, time.Duration(1<<63-1)/time.Microsecond*time.Microsecond, duration(1<<62))
	assert.Equal(t, -time.Duration(1<<63-1)/time.Microsecond*time.Microsecond, duration(-1<<62))
}

func TestNewRelay_Refuses(t *testing.T) {
	_, err := NewRelay(nil, nil, Config{Batch: -1})
	require.ErrorIs(t, err, delayer.ErrConfig)
}
