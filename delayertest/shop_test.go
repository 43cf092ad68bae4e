package delayertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
)

// docs/testing.md shows the functions of this file.

// A shop reminds of orders that are not paid, and then expires them.
type shop struct {
	delayer delayer.Delayer
	orders  map[string]string
}

func (s *shop) place(ctx context.Context, id string) error {
	if err := s.again(ctx, id, 1, 30*time.Minute); err != nil {
		return fmt.Errorf("order %s: %w", id, err)
	}
	s.orders[id] = "open"
	return nil
}

// again asks for a message about an unpaid order.
func (s *shop) again(ctx context.Context, id string, reminder int32, in time.Duration) error {
	return s.delayer.Publish(ctx, "orders", "order.unpaid", in, amqp091.Publishing{
		Headers: amqp091.Table{"reminder": reminder}, Body: []byte(id),
	})
}

// unpaid handles the message. It looks at the order: the message may come twice.
func (s *shop) unpaid(ctx context.Context, m amqp091.Delivery) error {
	id := string(m.Body)
	switch {
	case s.orders[id] == "open":
		s.orders[id] = "reminded"
		return s.again(ctx, id, 2, 24*time.Hour)
	case s.orders[id] == "reminded" && m.Headers["reminder"] == int32(2):
		s.orders[id] = "expired"
	}
	return nil
}

func TestPlace(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	s := &shop{d, map[string]string{}}
	require.NoError(t, s.place(t.Context(), "42"))
	require.Equal(t, []delayer.Message{{
		Exchange: "orders", Key: "order.unpaid", Delay: 30 * time.Minute,
		Publishing: amqp091.Publishing{Headers: amqp091.Table{"reminder": int32(1)}, Body: []byte("42")},
	}}, d.Published())
}

func TestUnpaid(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	s := &shop{d, map[string]string{}}
	require.NoError(t, s.place(t.Context(), "42"))
	require.Empty(t, d.Advance(29*time.Minute))

	due := d.Advance(time.Minute)
	require.Len(t, due, 1)
	require.NoError(t, s.unpaid(t.Context(), due[0]))
	require.Equal(t, "reminded", s.orders["42"])
	require.NoError(t, s.unpaid(t.Context(), due[0]), "it may come twice")
	require.Equal(t, "reminded", s.orders["42"])

	for _, m := range d.Advance(24 * time.Hour) {
		require.NoError(t, s.unpaid(t.Context(), m))
	}
	require.Equal(t, "expired", s.orders["42"])
	require.Empty(t, d.Waiting())
}

func TestUnpaid_AllAtOnce(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	s := &shop{d, map[string]string{}}
	d.Handle(func(m amqp091.Delivery) { require.NoError(t, s.unpaid(t.Context(), m)) })
	require.NoError(t, s.place(t.Context(), "42"))
	require.Len(t, d.Advance(48*time.Hour), 2) // the second was published by the handler of the first
	require.Equal(t, "expired", s.orders["42"])
}

func TestPlace_Fails(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	s := &shop{d, map[string]string{}}
	d.FailNext(delayer.ErrRefused, delayer.ErrUnknown)

	err := s.place(t.Context(), "41")
	require.ErrorIs(t, err, delayer.ErrRefused)
	require.True(t, delayer.SafeToRetry(err))
	require.Empty(t, d.Waiting())

	require.ErrorIs(t, s.place(t.Context(), "42"), delayer.ErrUnknown)
	for _, m := range d.Advance(30 * time.Minute) { // stored, but of no known order
		require.NoError(t, s.unpaid(t.Context(), m))
	}
	require.Empty(t, s.orders)
}

type reminders struct{ delayer delayer.Delayer }

func (r reminders) set(ctx context.Context, user string, in time.Duration) (delayer.Ticket, error) {
	return r.delayer.Schedule(ctx, delayer.Message{Key: "reminders", Delay: in, Publishing: amqp091.Publishing{Body: []byte(user)}})
}

// drop reports whether it prevents a reminder.
func (r reminders) drop(ctx context.Context, t delayer.Ticket) (bool, error) {
	err := r.delayer.Cancel(ctx, t)
	if errors.Is(err, delayer.ErrTooLate) {
		return false, nil
	}
	return err == nil, err
}

func TestReminders(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	r := reminders{d}
	ticket, err := r.set(t.Context(), "ann", time.Hour)
	require.NoError(t, err)
	dropped, err := r.drop(t.Context(), ticket)
	require.NoError(t, err)
	require.True(t, dropped)
	require.Empty(t, d.Waiting())

	ticket, err = r.set(t.Context(), "bob", time.Hour)
	require.NoError(t, err)
	d.Advance(time.Hour)
	dropped, err = r.drop(t.Context(), ticket)
	require.NoError(t, err)
	require.False(t, dropped)
}

func TestReminders_Unsupported(t *testing.T) {
	limits := delayertest.DefaultLimits()
	limits.CancelBefore = 0 // as with all backends but controller
	r := reminders{delayertest.New(delayertest.Config{Limits: limits})}
	_, err := r.set(t.Context(), "ann", time.Hour)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestUnpaid_Bubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := delayertest.New(delayertest.Config{Timers: true})
		s := &shop{d, map[string]string{}}
		arrived := make(chan amqp091.Delivery, 1)
		d.Handle(func(m amqp091.Delivery) { arrived <- m })

		start := time.Now()
		require.NoError(t, s.place(t.Context(), "42"))
		require.NoError(t, s.unpaid(t.Context(), <-arrived))
		require.Equal(t, 30*time.Minute, time.Since(start))
		require.Equal(t, "reminded", s.orders["42"])
	})
}
