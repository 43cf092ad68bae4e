package notify_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delayer-go/delayer/internal/notify"
	"github.com/delayer-go/delayer/internal/postgres/postgrestest"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// A scene is the program with a broker, a database and a service.
type scene struct {
	t       *testing.T
	program notify.Program
	pool    *pgxpool.Pool
	queue   string
}

func newScene(t *testing.T, answer func(order int64, attempt int) (status int), env ...string) *scene {
	t.Helper()
	partner := notify.NewPartner(answer)
	t.Cleanup(partner.Close)
	address, name := postgrestest.URL(t), rabbittest.Prefix(t)
	path, err := notify.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	s := &scene{t: t, pool: postgrestest.Pool(t, address), queue: name + "-orders", program: notify.Program{
		Path: path, Log: t.Output(), Env: append([]string{
			"DATABASE_URL=" + address, "DELAYER_URL=" + rabbittest.Broker(t).URL(), "DELAYER_PREFIX=" + name,
			"NOTIFY_QUEUE=" + name + "-orders", "NOTIFY_SERVICE=" + partner.URL(), "NOTIFY_POLICY=1s", shortLadder,
		}, env...)}}
	s.run("setup")
	s.run("setup") // as every deployment does
	return s
}

func (s *scene) run(args ...string) { require.NoError(s.t, s.program.Run(s.t.Context(), args...)) }

func (s *scene) keep(role string) {
	service := s.program.Keep(role)
	s.t.Cleanup(service.Stop)
}

// becomes waits for the states of all orders.
func (s *scene) becomes(want map[string]int) {
	s.t.Helper()
	var got map[string]int
	ok := assert.Eventually(s.t, func() bool {
		var err error
		got, err = notify.States(context.Background(), s.pool)
		return assert.NoError(s.t, err) && assert.ObjectsAreEqual(want, got)
	}, patience, 20*time.Millisecond)
	require.True(s.t, ok, "%v", got)
}

func TestStates(t *testing.T) {
	s := newScene(t, func(order int64, attempt int) int {
		switch order {
		case 1:
			return http.StatusOK
		case 2:
			return map[int]int{1: http.StatusServiceUnavailable, 2: http.StatusOK}[attempt]
		case 3:
			return http.StatusBadRequest
		}
		return http.StatusInternalServerError
	})
	s.keep("relay")
	s.run("save", "4")
	s.becomes(map[string]int{"I": 4})
	s.keep("worker")
	s.becomes(map[string]int{"S": 2, "F": 2})
	for order, want := range map[int]struct {
		attempts int
		err      string
	}{1: {1, ""}, 2: {2, ""}, 3: {1, "400 Bad Request"}, 4: {2, "500 Internal Server Error"}} {
		var attempts int
		var text string
		require.NoError(t, s.pool.QueryRow(t.Context(), "SELECT attempts, coalesce(error, '') FROM orders WHERE id = $1", order).Scan(&attempts, &text))
		assert.Equal(t, want.attempts, attempts, order)
		assert.Equal(t, want.err, text, order)
	}
	ch := rabbittest.Channel(t, rabbittest.Broker(t))
	require.Eventually(t, func() bool { // the state comes before the message is parked
		q, err := ch.QueueDeclarePassive(s.queue+".parked", true, false, false, false, nil)
		return assert.NoError(t, err) && q.Messages == 2
	}, patience, 20*time.Millisecond)
}

// TestSweep: an order whose message is lost is sent again, and one that has ended is not.
func TestSweep(t *testing.T) {
	s := newScene(t, func(int64, int) int { return http.StatusOK }, "NOTIFY_OVERDUE=0s")
	s.keep("relay")
	s.run("save", "2")
	ch := rabbittest.Channel(t, rabbittest.Broker(t))
	purged := 0
	require.Eventually(t, func() bool {
		n, err := ch.QueuePurge(s.queue, false)
		purged += n
		return assert.NoError(t, err) && purged == 2
	}, patience, 20*time.Millisecond)
	_, err := s.pool.Exec(t.Context(), "UPDATE orders SET state = 'F' WHERE id = 2")
	require.NoError(t, err)
	s.run("sweep")
	s.keep("worker")
	s.becomes(map[string]int{"S": 1, "F": 1})
}
