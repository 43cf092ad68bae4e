package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delayer-go/delayer/internal/lab/postgrestest"
	"github.com/delayer-go/delayer/internal/lab/process"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// The states of an order that has ended.
const sent, failed = "S", "F"

// A stage is the program with a broker, a database and a service.
type stage struct {
	t     *testing.T
	path  string // of the program
	env   []string
	pool  *pgxpool.Pool
	queue string
}

func newStage(t *testing.T, answer func(order int64, attempt int) (status int), env ...string) *stage {
	t.Helper()
	partner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order, err := strconv.ParseInt(filepath.Base(r.URL.Path), 10, 64)
		attempt, unread := strconv.Atoi(r.Header.Get("Attempt"))
		if err != nil || unread != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(answer(order, attempt))
	}))
	t.Cleanup(partner.Close)
	address, name := postgrestest.URL(t), rabbittest.Prefix(t)
	s := &stage{
		t: t, path: filepath.Join(t.TempDir(), "notify"), pool: postgrestest.Pool(t, address), queue: name + "-orders",
		env: append(os.Environ(), append([]string{
			"DATABASE_URL=" + address, "DELAYER_URL=" + rabbittest.Broker(t).URL(), "DELAYER_PREFIX=" + name,
			"NOTIFY_QUEUE=" + name + "-orders", "NOTIFY_SERVICE=" + partner.URL, "NOTIFY_WAITS=1s", shortLadder,
		}, env...)...),
	}
	out, err := exec.Command("go", "build", "-o", s.path, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s.run("setup")
	s.run("setup") // as every deployment does
	return s
}

// command is a role that is asked to end when ctx does.
func (s *stage) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, s.t.Output(), s.t.Output()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	process.DieWithParent(cmd)
	return cmd
}

func (s *stage) run(args ...string) {
	s.t.Helper()
	require.NoError(s.t, s.command(s.t.Context(), args...).Run(), args[0])
}

// keep runs a role until the test ends, again whenever it has ended. kill kills it with SIGKILL.
func (s *stage) keep(role string) (kill func(context.Context) error) {
	service := process.Keep(func(ctx context.Context) *exec.Cmd { return s.command(ctx, role) })
	s.t.Cleanup(service.Close)
	return service.Kill
}

func (s *stage) states() (map[string]int, error) {
	rows, err := s.pool.Query(context.Background(), "SELECT state, count(*) FROM orders GROUP BY state")
	if err != nil {
		return nil, err
	}
	type count struct {
		State  string
		Orders int
	}
	counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[count])
	states := map[string]int{}
	for _, c := range counts {
		states[c.State] = c.Orders
	}
	return states, err
}

func (s *stage) number(query string) (n int) {
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), query).Scan(&n))
	return n
}

func (s *stage) becomes(want map[string]int) {
	s.t.Helper()
	var got map[string]int
	ok := assert.Eventually(s.t, func() bool {
		var err error
		got, err = s.states()
		return assert.NoError(s.t, err) && assert.ObjectsAreEqual(want, got)
	}, patience, 20*time.Millisecond)
	require.True(s.t, ok, "%v", got)
}

// TestMain's broker repeats a dead-lettering early. After a restart a waiting queue may dead-letter
// before the queue of orders is ready; RabbitMQ publishes such a message again after three minutes.
func TestMain(m *testing.M) {
	rabbittest.Main(m, rabbit.Options{
		Args: rabbit.DeadLetterRetry(10 * time.Second), Plugins: []string{rabbittest.DelayedMessages}, // for TestKilled, if asked
	})
}

// shortLadder is enough for the policies here. Each process looks at every queue when it starts.
const shortLadder = "DELAYER_BINARYLADDER_STEPS=1s,2s,4s"

// patience is generous: it bounds what hangs, and measures nothing.
const patience = 3 * time.Minute

// watch makes the database note each time that an order is set to S.
const watch = `
CREATE TABLE sent_log (id bigint NOT NULL);
CREATE FUNCTION log_sent() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN INSERT INTO sent_log VALUES (NEW.id); RETURN NULL; END $$;
CREATE TRIGGER log_sent AFTER UPDATE OF state ON orders FOR EACH ROW WHEN (NEW.state = 'S') EXECUTE FUNCTION log_sent()`

// intervalsKilled are those of TestKilled's policy: 1 s and 2 s, or those of waitsVariable.
var intervalsKilled = []time.Duration{time.Second, 2 * time.Second}

// waitsVariable is a list such as 3s,10s,30s.
const waitsVariable = "DELAYER_TEST_WAITS"

// calls are those that the service got. Three of ten fail.
type calls struct {
	mu     sync.Mutex
	failed map[[2]int64]time.Time // by order and attempt: when it first failed
	heard  map[int64]bool         // orders with a call that succeeded
	early  []string

	all  int
	made map[[2]int64]bool // by order and attempt: those that were made once, or again
}

func (c *calls) answer(order int64, attempt int) (status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed, c.heard, c.made = map[[2]int64]time.Time{}, map[int64]bool{}, map[[2]int64]bool{}
	}
	at := [2]int64{order, int64(attempt)}
	c.all++
	c.made[at] = true
	now := time.Now()
	if attempt > 1 {
		before, ok := c.failed[[2]int64{order, int64(attempt - 1)}]
		if wait := intervalsKilled[attempt-2]; !ok || now.Sub(before) < wait {
			c.early = append(c.early, fmt.Sprintf("order %d, attempt %d: %v after the failure before it", order, attempt, now.Sub(before)))
		}
	}
	if rand.IntN(10) >= 3 {
		c.heard[order] = true
		return http.StatusOK
	}
	if c.failed[at].IsZero() {
		c.failed[at] = now
	}
	return http.StatusServiceUnavailable
}

// ordersVariable is how many orders TestKilled saves. `make results PARTS=retries` sets it, and
// DELAYER_BACKEND, for docs/measured.md.
const ordersVariable = "DELAYER_TEST_ORDERS"

// TestKilled: every order ends in state S, once, or in F and parked, whatever is killed, and no
// attempt is made before its time. The sweep does not run, but for messages that the plugin loses
// while the broker starts: they are counted.
func TestKilled(t *testing.T) {
	backend, onPlugin := os.Getenv("DELAYER_BACKEND"), os.Getenv("DELAYER_BACKEND") == "plugin"
	if onPlugin {
		rabbittest.NeedPlugin(t, rabbittest.DelayedMessages)
	}
	cycles, burst := 1, 50
	if text := os.Getenv(ordersVariable); text != "" {
		orders, err := strconv.Atoi(text)
		require.NoError(t, err, ordersVariable)
		cycles, burst = 3, orders/3/6 // six are killed in a cycle
	}
	waits := []string{"NOTIFY_WAITS=1s,2s", "NOTIFY_OVERDUE=24h"}
	if text := os.Getenv(waitsVariable); text != "" {
		waits = []string{"NOTIFY_WAITS=" + text, "NOTIFY_OVERDUE=24h", "DELAYER_BINARYLADDER_STEPS=calendar"}
		intervalsKilled = nil
		for wait := range strings.SplitSeq(text, ",") {
			interval, err := time.ParseDuration(wait)
			require.NoError(t, err, waitsVariable)
			intervalsKilled = append(intervalsKilled, interval)
		}
	}
	b := rabbittest.Alone(t)
	defer rabbittest.Evidence(t, b)
	var c calls
	began := time.Now()
	s := newStage(t, c.answer, waits...)
	_, err := s.pool.Exec(t.Context(), watch)
	require.NoError(t, err)
	relay, worker := s.keep("relay"), s.keep("worker") // kill them
	faults := [...]func(context.Context) error{worker, relay, b.Restart, worker, relay, worker}
	for range cycles {
		for _, fault := range faults {
			s.run("save", strconv.Itoa(burst))
			require.NoError(t, fault(t.Context()))
		}
	}
	orders := cycles * burst * len(faults)
	var states map[string]int
	ended := func() bool {
		var err error
		states, err = s.states()
		return assert.NoError(t, err) && states[sent]+states[failed] == orders
	}
	swept := 0
	if onPlugin && !within(ended) {
		swept = orders - states[sent] - states[failed]
		_, err := s.pool.Exec(t.Context(), "UPDATE orders SET overdue = now()")
		require.NoError(t, err)
		s.run("sweep")
	}
	require.Eventually(t, ended, patience, 100*time.Millisecond, "every order ends")
	took := time.Since(began)
	assert.Positive(t, states[sent])
	assert.Positive(t, states[failed])
	assert.Equal(t, states[sent], s.number("SELECT count(*) FROM sent_log"), "each is sent once")
	assert.Equal(t, states[sent], s.number("SELECT count(DISTINCT id) FROM sent_log"))
	inState := func(state string) (ids []int64, err error) {
		rows, err := s.pool.Query(context.Background(), "SELECT id FROM orders WHERE state = $1", state)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	ids, err := inState(sent)
	require.NoError(t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Empty(t, c.early, "attempts before their time")
	for _, id := range ids {
		assert.True(t, c.heard[id], "order %d is sent, and the service did not answer with success", id)
	}
	ids, err = inState(failed)
	require.NoError(t, err)
	ch := rabbittest.NewRig(t, b).Ch
	parked, copies := map[string]bool{}, 0
	require.Eventually(t, func() bool { // the state comes before the message is parked
		for {
			d, ok, err := ch.Get(s.queue+".parked", true)
			if !assert.NoError(t, err) || !ok {
				break
			}
			parked[string(d.Body)] = true
			copies++
		}
		return !slices.ContainsFunc(ids, func(id int64) bool { return !parked[strconv.FormatInt(id, 10)] })
	}, patience, 20*time.Millisecond, "what has failed is parked")
	t.Logf("%v | sent %d | failed and parked %d | sent by the sweep %d | calls %d, %d of them again | parked twice %d | parked and sent %d | took %v",
		backend, states[sent], states[failed], swept, c.all, c.all-len(c.made), copies-len(parked), len(parked)-len(ids), took.Round(time.Second))
}

// within reports whether something happens in less than patience.
func within(happens func() bool) bool {
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if happens() {
			return true
		}
	}
	return false
}

// TestSweep: an order whose message is lost is sent again, and one that has ended is not.
func TestSweep(t *testing.T) {
	s := newStage(t, func(int64, int) int { return http.StatusOK }, "NOTIFY_OVERDUE=0s")
	s.keep("relay")
	s.run("save", "2")
	ch := rabbittest.NewRig(t, rabbittest.Broker(t)).Ch
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
