package broker_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/delivery"
)

// bindings is how many lead out of the delivery exchange.
func (s *staged) bindings() int {
	s.Helper()
	out, err := s.Broker.Ctl(s.Context(), "eval", fmt.Sprintf(
		`length(rabbit_binding:list_for_source(rabbit_misc:r(<<"/">>, exchange, <<"%s">>))).`, s.stage.Exchange()))
	require.NoError(s, err)
	n, err := strconv.Atoi(strings.TrimSpace(out))
	require.NoError(s, err)
	return n
}

// TestDestinations_ExchangeGone: what is left of a destination exchange that is gone leads to the
// fork, from where nothing is lost, and all is bound again when it is back.
func TestDestinations_ExchangeGone(t *testing.T) {
	t.Parallel()
	s := newStaged(t)
	if !s.Broker.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to see bindings")
	}
	d := delivery.NewDestinations(s.stage, s.control(), "test", slog.New(slog.DiscardHandler))
	defer d.Close()
	exchange := s.Prefix + "-x"
	for range 2 {
		require.NoError(t, s.Ch.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
		require.Eventually(t, func() bool {
			_, err := d.Bind(t.Context(), exchange, "k", nil, time.Hour)
			return err == nil
		}, time.Minute, 10*time.Millisecond)
		require.Equal(t, 1, s.bindings(), "to the fork")
		require.NoError(t, d.Rebind(t.Context()))
		require.Equal(t, 1, s.bindings())
		require.NoError(t, s.Ch.ExchangeDelete(exchange, false, false))
		require.Eventually(t, func() bool {
			_, err := d.Bind(t.Context(), exchange, "k", nil, time.Hour)
			return err != nil
		}, time.Minute, 10*time.Millisecond)
		_, err := d.Bind(t.Context(), exchange, "k", nil, time.Hour)
		require.ErrorIs(t, err, delayer.ErrUnroutable)
		require.Equal(t, 1, s.bindings(), "to the fork")
	}
}

// TestDestinations_NameWithQuotes: a queue that is named like an object of ours in quotes is a
// destination.
func TestDestinations_NameWithQuotes(t *testing.T) {
	t.Parallel()
	s := newStaged(t)
	d := delivery.NewDestinations(s.stage, s.control(), "test", slog.New(slog.DiscardHandler))
	defer d.Close()
	_, err := d.Bind(t.Context(), "", "x'"+s.stage.Exchange()+"'y", nil, time.Hour)
	require.ErrorIs(t, err, delayer.ErrUnroutable)
	require.False(t, delivery.TopologyLost(err))
	require.NoError(t, s.Ch.ExchangeDelete(s.stage.Exchange(), false, false))
	_, err = d.Bind(t.Context(), "", s.queue, nil, time.Hour)
	require.True(t, delivery.TopologyLost(err), "%v", err)
}
