package broker_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
)

// TestMover_MayNotRead: a process whose user may not read the queue leaves it to one that may.
func TestMover_MayNotRead(t *testing.T) {
	t.Parallel()
	s := newStaged(t)
	if !s.Broker.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to make a user")
	}
	address, allow := user(t, s.Broker)
	allow(".*", "^$")
	conn, err := broker.Dial(t.Context(), broker.Options{URL: address, Name: "forbidden " + s.Prefix, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	forbidden := s.config()
	forbidden.Control = broker.NewControl(conn)
	t.Cleanup(forbidden.Control.Close)
	var log rabbittest.Logbook
	forbidden.Destinations = delivery.NewDestinations(s.stage, forbidden.Control, "test", log.Logger())
	t.Cleanup(forbidden.Destinations.Close)
	m := delivery.StartMover(forbidden)
	defer m.Close()
	for look := time.Tick(10 * time.Millisecond); !strings.Contains(log.String(), "cannot consume misrouted messages"); <-look {
		require.NoError(t, t.Context().Err())
	}
	s.start(s.config())
	arrived := s.Consume(s.stage.Unroutable())
	s.misroute("one", "", "nowhere", time.Second, time.Second)
	require.Equal(t, "one", string(rabbittest.Next(t, arrived).Body))
}
