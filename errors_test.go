package delayer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestErrorSaysWhatFailedOnWhatWhyAndWhatToDo(t *testing.T) {
	err := &delayer.Error{
		Op: "publish", Backend: "binaryladder", Object: `queue "orders"`, Kind: delayer.ErrUnroutable,
		Cause: errors.New("404 NOT_FOUND"), Hint: "declare it first",
	}
	require.EqualError(t, err, `delayer: publish binaryladder queue "orders": unroutable: 404 NOT_FOUND (declare it first)`)
	require.EqualError(t, &delayer.Error{Op: "close"}, "delayer: close")
	require.EqualError(t, &delayer.Error{Kind: delayer.ErrAccess, Cause: errors.New("403")}, "delayer: access refused: 403")
}

func TestSafeToRetry(t *testing.T) {
	of := func(kind, cause error) error {
		return fmt.Errorf("wrapped: %w", &delayer.Error{Op: "publish", Kind: kind, Cause: cause})
	}
	for _, kind := range []error{
		delayer.ErrInvalid, delayer.ErrOutOfRange, delayer.ErrUnroutable, delayer.ErrRefused, delayer.ErrNotSent,
		delayer.ErrClosed, delayer.ErrAccess, delayer.ErrConflict,
	} {
		require.True(t, delayer.SafeToRetry(of(kind, nil)), "%v", kind)
		require.ErrorIs(t, of(kind, nil), kind)
	}
	require.True(t, delayer.SafeToRetry(of(delayer.ErrNotSent, context.Canceled)))
	require.ErrorIs(t, of(delayer.ErrNotSent, context.Canceled), context.Canceled)
	require.False(t, delayer.SafeToRetry(of(delayer.ErrUnknown, context.Canceled)))
	require.False(t, delayer.SafeToRetry(nil))
	require.False(t, delayer.SafeToRetry(errors.New("not of this package")))
}

func header(value any) amqp091.Table { return amqp091.Table{"other": 1, delayer.Header: value} }

func TestParseHeader_RoundTrip(t *testing.T) {
	for _, exchange := range []string{"", "orders", "with two spaces", "été"} {
		for _, id := range []string{"id", "remind/order 17", "100 %", "été\x00\xff", "nightly@2027-01-31T18:00Z"} {
			e := delayer.Envelope{ID: id, Due: time.UnixMilli(1795234405786), Delay: 90 * time.Second, Exchange: exchange}
			require.Regexp(t, `^[!-~]+ \d+ \d+ `, e.String())
			got, err := delayer.ParseHeader(header(e.String()))
			require.NoError(t, err)
			require.Equal(t, e, got)
		}
	}
}

func TestParseHeader_None(t *testing.T) {
	for _, headers := range []amqp091.Table{nil, {}, {"x-death": []any{}}} {
		e, err := delayer.ParseHeader(headers)
		require.ErrorIs(t, err, delayer.ErrNotFound)
		require.NotErrorIs(t, err, delayer.ErrInvalid)
		require.Zero(t, e)
		require.EqualError(t, err, "delayer: parse header x-delayer: not found (no Delayer has published the message)")
	}
}

func TestParseHeader_Garbled(t *testing.T) {
	for _, value := range []any{
		nil, 5, []byte("id 1 1 x"), amqp091.Table{}, "", "id", "id 1", "id 1 1", " 1 1 x", "id x 1 y", "id 1 x y", "id 1 -1 x", "id 1 1.5 x",
		"id 99999999999999999999 1 x", "id 1 9223372036855 x", "id  1 1 x", "%zz 1 1 x", strings.Repeat("x", 10_000),
	} {
		e, err := delayer.ParseHeader(header(value))
		require.ErrorIs(t, err, delayer.ErrInvalid, "%v", value)
		require.NotErrorIs(t, err, delayer.ErrNotFound)
		require.Zero(t, e)
		require.Less(t, len(err.Error()), 300, "an error must not repeat a large input")
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add("id 1795234405786 90000 orders")
	f.Add("  ")
	f.Add("id x y")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := delayer.ParseHeader(header(s))
		if err != nil {
			return
		}
		again, err := delayer.ParseHeader(header(e.String()))
		require.NoError(t, err)
		require.Equal(t, e, again)
	})
}

func TestEnvelope_LongestDelay(t *testing.T) {
	e := delayer.Envelope{ID: "id", Due: time.UnixMilli(0), Delay: math.MaxInt64 / time.Millisecond * time.Millisecond}
	got, err := delayer.ParseHeader(header(e.String()))
	require.NoError(t, err)
	require.Equal(t, e, got)
}

func TestPublishEach(t *testing.T) {
	var sent []delayer.Message
	publish := func(_ context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
		sent = append(sent, delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: msg})
		return map[string]error{"b": delayer.ErrRefused}[key]
	}
	messages := []delayer.Message{{Key: "a", Delay: time.Second}, {Exchange: "x", Key: "b"}, {Key: "c"}}
	require.Equal(t, []error{nil, delayer.ErrRefused, nil}, delayer.PublishEach(t.Context(), publish, messages))
	require.Equal(t, messages, sent)
	require.Empty(t, delayer.PublishEach(t.Context(), publish, nil))
	for _, m := range []delayer.Message{{Key: "a", ID: "id"}, {Key: "a", Due: time.Now()}} {
		err := delayer.PublishEach(t.Context(), publish, []delayer.Message{m})[0]
		require.ErrorIs(t, err, delayer.ErrInvalid)
		require.EqualError(t, err, `delayer: publish to queue "a": invalid message: a message of a batch has no ID and no Due (use Schedule)`)
	}
	require.Len(t, sent, len(messages))
}

func TestNoTickets(t *testing.T) {
	r := delayer.NoTickets{Backend: "mine"}
	scheduled, err := r.Schedule(t.Context(), delayer.Message{Key: "queue", Delay: time.Minute})
	require.Empty(t, scheduled)
	require.EqualError(t, err, "delayer: schedule mine: unsupported operation: its messages cannot be cancelled (use backend controller with wheel slots, its default)")
	postponed, again := r.Postpone(t.Context(), "ticket", time.Minute)
	require.Empty(t, postponed)
	named, none := r.Ticket("id", time.Now())
	require.Empty(t, named)
	for _, err := range []error{err, again, none, r.Cancel(t.Context(), "ticket")} {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.True(t, delayer.SafeToRetry(err), "nothing was sent")
	}
}
