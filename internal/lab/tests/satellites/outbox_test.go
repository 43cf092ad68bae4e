package satellites_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/postgrestest"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/outbox"
)

// TestRelay_ExecModes: pgx writes what has no type of its own differently in each of its modes.
// Behind a pooler in transaction mode the last two are usual.
func TestRelay_ExecModes(t *testing.T) {
	_, address := database(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			pool := postgrestest.Pool(t, with(t, address, "default_query_exec_mode", mode))
			published := make(chan amqp091.Publishing, 1)
			relay(t, pool, &fake{publish: func(_ context.Context, _ time.Duration, msg amqp091.Publishing) error {
				published <- msg
				return nil
			}}, outbox.Config{})
			sent := amqp091.Publishing{MessageId: mode, Headers: amqp091.Table{"k": "v"}, Body: []byte{0, 1, 255}}
			require.NoError(t, outbox.Enqueue(t.Context(), pool, "", "q", 0, sent))
			assert.Equal(t, sent, <-published)
			empty(t, pool)
		})
	}
}

func TestRelay_CommitAndRollback(t *testing.T) {
	pool, _ := database(t)
	b := rabbittest.Broker(t)
	name, deliveries := queue(t, b)
	relay(t, pool, rabbittest.Open(t, config(t, b)), outbox.Config{Poll: time.Hour}) // a notification wakes it

	headers := amqp091.Table{"string": "é\x00", "bytes": []byte{0, 255}, "latin": "\xe9", "i64": int64(math.MaxInt64)} // all others: package messagejson
	rollback := errors.New("the order is not valid")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		require.NoError(t, outbox.Enqueue(t.Context(), tx, "", name, 0, amqp091.Publishing{Body: []byte("never")}))
		return rollback
	})
	require.ErrorIs(t, err, rollback)

	const delay = 300 * time.Millisecond
	began := time.Now()
	msg := amqp091.Publishing{Headers: headers, ContentType: "text/plain", CorrelationId: "c", Type: "t", AppId: "a",
		Timestamp: time.Unix(1700000000, 0), Priority: 1, Body: []byte{0, 1, 255}}
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return outbox.Enqueue(t.Context(), tx, "", name, delay, msg)
	}))
	d := rabbittest.Next(t, deliveries)
	assert.GreaterOrEqual(t, time.Since(began), delay, "early")
	assert.Equal(t, msg.Body, d.Body)
	assert.NotEmpty(t, d.MessageId, "so that a duplicate is recognised")
	assert.Equal(t, []any{msg.ContentType, msg.CorrelationId, msg.Type, msg.AppId, msg.Priority, msg.Timestamp.Unix()},
		[]any{d.ContentType, d.CorrelationId, d.Type, d.AppId, d.Priority, d.Timestamp.Unix()})
	for header, value := range headers {
		assert.Equal(t, value, d.Headers[header], header)
	}
	enqueue(t, pool, name, 0, "sentinel")
	assert.Equal(t, "sentinel", rabbittest.Next(t, deliveries).MessageId)
	empty(t, pool)
}

func TestRelay_Two(t *testing.T) {
	pool, _ := database(t)
	ids, d := names(3000), newCounter()
	for range 2 {
		relay(t, pool, d, outbox.Config{Batch: 100})
	}
	for at := 0; at < len(ids); at += 300 {
		enqueue(t, pool, "q", 0, ids[at:at+300]...)
	}
	d.await(t, ids...)
	empty(t, pool)
	published := d.await(t)
	assert.Len(t, published, len(ids))
	for id, n := range published {
		assert.Equal(t, 1, n, id)
	}
}

func TestRelay_Poison(t *testing.T) {
	pool, _ := database(t)
	b := rabbittest.Broker(t)
	name, deliveries := queue(t, b)
	gone := rabbittest.Prefix(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO delayer_outbox (message, body, due, next_try) VALUES
		('{"headers": 7}', '', now(), now()), ('{}', '', 'infinity', now()), ('{}', '', now(), 'infinity')`)
	require.NoError(t, err)
	enqueue(t, pool, gone, 0, "no such queue")
	huge := amqp091.Publishing{MessageId: "huge", Headers: amqp091.Table{"x": strings.Repeat("x", 300_000)}}
	require.NoError(t, outbox.Enqueue(t.Context(), pool, "", name, 0, huge))
	// A batch of one: each of those above is taken before what follows.
	relay(t, pool, rabbittest.Open(t, config(t, b)), outbox.Config{Batch: 1, Workers: 1, MaxPause: time.Hour})
	ids := names(20)
	enqueue(t, pool, name, 0, ids...)
	collect(t, deliveries, ids)

	require.Eventually(t, func() bool {
		l, err := outbox.ReadLag(t.Context(), pool)
		return assert.NoError(t, err) && l == outbox.Lag{Failed: 4, Waiting: 1}
	}, rabbittest.Patience, 20*time.Millisecond)
	failures, err := outbox.Failures(t.Context(), pool, 10)
	require.NoError(t, err)
	require.Len(t, failures, 4)
	for at, want := range []string{"cannot be read", "due is infinite", "unroutable", "must fit into one frame"} {
		assert.Contains(t, failures[at].Err, want)
		assert.Positive(t, failures[at].Attempts)
		assert.True(t, failures[at].NextTry.After(failures[at].Enqueued))
	}
	assert.Equal(t, "no such queue", failures[2].Message.MessageId)
	assert.Equal(t, gone, failures[2].Key)

	r := rabbittest.NewRig(t, b)
	r.Declare(gone, nil) // and then it is delivered, by itself
	repaired := r.Consume(gone)
	assert.Equal(t, "no such queue", rabbittest.Next(t, repaired).MessageId)
}

func TestReadLag(t *testing.T) {
	pool, _ := database(t)
	l, err := outbox.ReadLag(t.Context(), pool)
	require.NoError(t, err)
	assert.Equal(t, outbox.Lag{}, l)
	enqueue(t, pool, "q", 0, "a", "b", "c", "d")
	_, err = pool.Exec(t.Context(), `UPDATE delayer_outbox SET next_try = now() + CASE id WHEN 1 THEN interval '-1 hour' ELSE '1 hour' END,
		error = CASE id WHEN 2 THEN 'no' END WHERE id < 4`)
	require.NoError(t, err)
	l, err = outbox.ReadLag(t.Context(), pool)
	require.NoError(t, err)
	assert.InDelta(t, time.Hour, l.Oldest, float64(time.Minute))
	l.Oldest = 0
	assert.Equal(t, outbox.Lag{Ready: 2, Waiting: 1, Failed: 1}, l)
}

// TestRelay_Stop: what is under way when the relay is told to stop is confirmed and deleted.
func TestRelay_Stop(t *testing.T) {
	pool, _ := database(t)
	entered, release := make(chan struct{}), make(chan struct{})
	d := &fake{publish: func(ctx context.Context, _ time.Duration, _ amqp091.Publishing) error {
		close(entered)
		<-release
		if ctx.Err() != nil {
			return &delayer.Error{Kind: delayer.ErrUnknown}
		}
		return nil
	}}
	r, err := outbox.NewRelay(pool, d, outbox.Config{Logger: silent})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	enqueue(t, pool, "q", 0, "a")
	<-entered
	stop()
	close(release)
	require.NoError(t, <-ended)
	l, err := outbox.ReadLag(t.Context(), pool)
	require.NoError(t, err)
	assert.Equal(t, outbox.Lag{}, l, "deleted before Run returns")
}

func TestRelay_DatabaseConnectionsLost(t *testing.T) {
	pool, address := database(t)
	d := newCounter()
	relay(t, postgrestest.Pool(t, address), d, outbox.Config{})
	enqueue(t, pool, "q", 0, "it works")
	d.await(t, "it works")
	for _, id := range names(3) {
		_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		require.NoError(t, err)
		enqueue(t, pool, "q", 0, id)
		d.await(t, id)
	}
	empty(t, pool)
}

func database(t testing.TB) (*pgxpool.Pool, string) {
	t.Helper()
	address := postgrestest.URL(t)
	pool := postgrestest.Pool(t, address)
	require.NoError(t, outbox.Migrate(t.Context(), pool))
	return pool, address
}

// with returns a database's address with a parameter added.
func with(t testing.TB, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx takes a + for what it is
	return u.String()
}

// config is that of a Delayer on a broker. What a relay does depends on no step.
func config(t testing.TB, b *rabbit.Broker) backend.Config {
	return backend.Config{
		Options:      delayer.Options{URL: b.URL(), Prefix: rabbittest.Prefix(t), Logger: silent},
		BinaryLadder: binaryladder.Config{Steps: "1s,2s,4s,8s"},
	}
}

// relay runs a relay until the test ends, or the function it returns is called.
func relay(t testing.TB, pool *pgxpool.Pool, d delayer.Delayer, cfg outbox.Config) (stop func()) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = silent
	}
	r, err := outbox.NewRelay(pool, d, cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

func enqueue(t testing.TB, pool *pgxpool.Pool, queue string, delay time.Duration, ids ...string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, id := range ids {
			if err := outbox.Enqueue(t.Context(), tx, "", queue, delay, amqp091.Publishing{MessageId: id, Body: []byte(id)}); err != nil {
				return err
			}
		}
		return nil
	}))
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("m%05d", i)
	}
	return list
}

// queue declares one and returns what arrives there.
func queue(t testing.TB, b *rabbit.Broker) (string, <-chan amqp091.Delivery) {
	t.Helper()
	r := rabbittest.NewRig(t, b)
	name := r.Queue("q", nil)
	return name, r.Consume(name)
}

func collect(t testing.TB, deliveries <-chan amqp091.Delivery, ids []string) map[string]int {
	t.Helper()
	missing, came := map[string]bool{}, map[string]int{}
	for _, id := range ids {
		missing[id] = true
	}
	for len(missing) > 0 {
		id := rabbittest.Next(t, deliveries).MessageId
		delete(missing, id)
		came[id]++
	}
	return came
}

// empty waits until the table is.
func empty(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		l, err := outbox.ReadLag(t.Context(), pool)
		return assert.NoError(t, err) && l == outbox.Lag{}
	}, rabbittest.Patience, 20*time.Millisecond)
}

// fake is a Delayer whose outcome the test decides.
type fake struct {
	delayer.Delayer // nil: nothing else is called

	limits  delayer.Limits
	publish func(ctx context.Context, delay time.Duration, msg amqp091.Publishing) error
}

func (f *fake) Publish(ctx context.Context, _, _ string, delay time.Duration, msg amqp091.Publishing) error {
	return f.publish(ctx, delay, msg)
}
func (f *fake) Limits() delayer.Limits { return f.limits }
func (f *fake) Close() error           { return nil }

// counter is a Delayer that counts what it publishes, by id. A message of type "fails" fails.
type counter struct {
	fake
	mu   sync.Mutex
	came map[string]int
}

func newCounter() *counter {
	c := &counter{came: map[string]int{}}
	c.limits = delayer.Limits{Max: time.Hour}
	c.publish = func(_ context.Context, _ time.Duration, msg amqp091.Publishing) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.came[msg.MessageId]++
		if msg.Type == "fails" {
			return &delayer.Error{Op: "publish", Kind: delayer.ErrRefused}
		}
		return nil
	}
	return c
}

// await waits until each id was published, and returns how often each was.
func (c *counter) await(t *testing.T, ids ...string) map[string]int {
	t.Helper()
	all := map[string]int{}
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		clear(all)
		for id, n := range c.came {
			all[id] = n
		}
		for _, id := range ids {
			if all[id] == 0 {
				return false
			}
		}
		return true
	}, rabbittest.Patience, 5*time.Millisecond)
	return all
}

// TestRelay_PublishedStaysPublished: what fails after publishing does not bring back what was
// published.
func TestRelay_PublishedStaysPublished(t *testing.T) {
	pool, _ := database(t)
	// The database refuses to note a failure.
	_, err := pool.Exec(t.Context(), `ALTER TABLE delayer_outbox ADD CHECK (error IS NULL)`)
	require.NoError(t, err)
	require.NoError(t, outbox.Enqueue(t.Context(), pool, "", "q", 0, amqp091.Publishing{MessageId: "bad", Type: "fails"}))
	enqueue(t, pool, "q", 0, names(20)...)
	d := newCounter()
	stop := relay(t, pool, d, outbox.Config{})
	require.Eventually(t, func() bool { return d.await(t, "bad")["bad"] > 1 }, rabbittest.Patience, 5*time.Millisecond)
	stop()
	came := d.await(t, names(20)...)
	for _, id := range names(20) {
		assert.Equal(t, 1, came[id], id)
	}
	assert.Equal(t, 1, count(t, pool, "delayer_outbox"))
}

// TestRelay_SlowDestination: rows for a queue that does not confirm lie among those for another.
// These are published at once, and none of them twice. When the queue confirms again, it gets its
// own.
func TestRelay_SlowDestination(t *testing.T) {
	pool, _ := database(t)
	b := rabbittest.Broker(t)
	const rows, every = 3000, 60
	rig := rabbittest.NewRig(t, b)
	good, stuck := rig.Queue("good", nil), rig.Queue("stuck", amqp091.Table{"x-queue-type": "quorum"})
	arrived := rig.Consume(good)
	resume := rabbittest.Suspend(t, b, stuck)
	var goods, stucks []string
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for i := range rows {
			id, queue := fmt.Sprintf("m%05d", i), good
			if i%every == 0 {
				queue = stuck
				stucks = append(stucks, id)
			} else {
				goods = append(goods, id)
			}
			if err := outbox.Enqueue(t.Context(), tx, "", queue, 0, amqp091.Publishing{MessageId: id}); err != nil {
				return err
			}
		}
		return nil
	}))
	stop := relay(t, pool, rabbittest.Open(t, config(t, b)), outbox.Config{MaxPause: 2 * time.Second})
	began := time.Now()
	came := collect(t, arrived, goods)
	t.Logf("%d messages arrived within %v", len(goods), time.Since(began))
	require.Eventually(t, func() bool {
		l, err := outbox.ReadLag(t.Context(), pool)
		return assert.NoError(t, err) && l == outbox.Lag{Failed: int64(len(stucks))}
	}, rabbittest.Patience, 20*time.Millisecond, "the good ones are done, the others failed")
	failures, err := outbox.Failures(t.Context(), pool, rows)
	require.NoError(t, err)
	for _, f := range failures {
		assert.Equal(t, stuck, f.Key)
		assert.Contains(t, f.Err, "confirm")
	}
	resume()
	collect(t, rig.Consume(stuck), stucks)
	empty(t, pool)
	stop()
	enqueue(t, pool, good, 0, "sentinel")
	relay(t, pool, rabbittest.Open(t, config(t, b)), outbox.Config{})
	for id, n := range collect(t, arrived, []string{"sentinel"}) {
		came[id] += n
	}
	for id, n := range came {
		assert.Equal(t, 1, n, "message %s", id)
	}
}
