package native

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		opts delayer.Options
		cfg  Config
		want string
	}{
		{delayer.Options{}, Config{Queues: -1}, "open native.queues: invalid configuration: -1 is not between 1 and 16"},
		{delayer.Options{}, Config{Queues: 17}, "17 is not between"},
		{delayer.Options{QueueType: delayer.Classic}, Config{}, "open queue_type: invalid configuration: classic queues do not hide messages"},
	} {
		_, err := Limits(c.opts, c.cfg)
		require.ErrorIs(t, err, delayer.ErrConfig)
		require.ErrorContains(t, err, c.want)
	}
}

func TestTopology(t *testing.T) {
	p, err := Topology(delayer.Options{Prefix: "p"}, Config{Queues: 1})
	require.NoError(t, err)
	require.Contains(t, p.Queues, topology.Queue{Name: "p.native.wait.0", Role: role.Hidden, Args: amqp091.Table{
		"x-queue-type": "quorum", "x-message-ttl": int64(0), "x-dead-letter-exchange": "p.delivery", "x-dead-letter-strategy": "at-least-once",
		"x-overflow": "reject-publish", "x-max-length": int64(1) << 40, "x-queue-leader-locator": "balanced",
	}})
	require.Contains(t, p.Exchanges, topology.Exchange{Name: "p.native.enter", Kind: "topic"}, "without an alternate exchange")
	for _, b := range p.Bindings {
		require.NotEqual(t, "p.native.enter", b.Source, "a gate alone leads to a queue")
	}
	l, err := Limits(delayer.Options{}, Config{})
	require.NoError(t, err)
	require.Equal(t, 10*365*24*time.Hour, l.Max)
	require.Equal(t, time.Millisecond, l.Resolution)
	require.True(t, l.Ordered && l.Replicated && l.SurvivesCrash && l.SurvivesRestart)
	require.Zero(t, l.CancelBefore)
}

// TestGate: keys are never those of another gate, and each leads to its queue with any number of words.
func TestGate(t *testing.T) {
	g := newGate(nil, 2)
	require.NotEqual(t, g.keys, newGate(nil, 2).keys)
	require.NotEqual(t, g.keys[0], g.keys[1])
	for _, key := range g.keys {
		require.Regexp(t, `^~d:proved:[A-Z2-7]{26}:\d$`, key, "one word")
	}
	require.Equal(t, []topology.Binding{
		{Source: "p.native.enter", Key: g.keys[0] + ".#", Target: "p.native.wait.0"},
		{Source: "p.native.enter", Key: g.keys[1] + ".#", Target: "p.native.wait.1"},
	}, g.bindings(names{prefix: "p"}))
}

// TestPass: a queue passes by any connection, and a connection by any queue. A failure counts for a
// second, and for its connection.
func TestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, conn, other := newGate(nil, 2), &amqp091.Connection{}, &amqp091.Connection{}
		passes := func(conn *amqp091.Connection, queue int) bool {
			known, err := pass{gate: g, queue: queue}.Known(conn)
			return known && err == nil
		}
		require.False(t, passes(conn, 0))
		require.True(t, g.pass(conn, 0))
		require.False(t, g.pass(conn, 0))
		require.True(t, passes(conn, 0))
		require.False(t, passes(conn, 1) || passes(other, 0))
		g.pass(other, 1)
		require.True(t, passes(conn, 1) && passes(other, 0))

		silent := errors.New("silent")
		require.False(t, g.fail(conn, silent), "all has passed")
		require.True(t, passes(conn, 0))
		g.ignored(other, 1)
		require.True(t, g.fail(other, errIgnored))
		require.True(t, passes(conn, 0))
		known, err := pass{gate: g, queue: 1}.Known(other)
		require.True(t, known)
		require.ErrorIs(t, err, errIgnored)
		time.Sleep(failAgain)
		known, _ = pass{gate: g, queue: 1}.Known(other)
		require.False(t, known, "there is another proof")
	})
}

// A queue answers questions as RabbitMQ does.
type queue struct {
	hides bool          // false: the header is ignored
	ahead time.Duration // of its clock
	slow  time.Duration // until it takes a message
	lost  int           // the number of an answer, from 1
}

// proves lets a proof ask a queue.
func proves(t *testing.T, q queue) *asking {
	type sent struct {
		header string
		at     int64
	}
	var came, hidden []sent
	a := &asking{
		names: names{prefix: "p"}, log: slog.New(slog.DiscardHandler), clocks: []*brokertime.Interval{brokertime.NewInterval()},
		gate: newGate(nil, 1), conn: &amqp091.Connection{},
		publish: func(_ int, e message.Envelope, hidden amqp091.Table) error {
			at, _ := hidden[message.NativeDelay].(int64)
			came = append(came, sent{e.String(), at})
			return nil
		},
	}
	require.NoError(t, a.begin())
	for !a.settled() {
		time.Sleep(q.slow)
		require.NotEmpty(t, append(hidden, came...), "nothing is asked any more")
		was, now := append(hidden, came...), time.Now().Add(q.ahead)
		came, hidden = nil, nil
		for _, m := range was {
			if m.at != 0 && q.hides && time.UnixMilli(m.at).After(now) {
				hidden = append(hidden, m)
				continue
			}
			if q.lost--; q.lost == 0 {
				continue
			}
			headers := amqp091.Table{delayer.Header: m.header, "x-death": []any{amqp091.Table{"time": now.Truncate(time.Second)}}}
			require.NoError(t, a.came(&amqp091.Delivery{Headers: headers}))
		}
		if len(came) == 0 { // nothing but time is left
			time.Sleep(time.Millisecond)
		}
	}
	return a
}

func TestProof(t *testing.T) {
	for name, q := range map[string]queue{
		"clock agrees": {hides: true}, "a minute ahead": {hides: true, ahead: time.Minute}, "an hour ahead": {hides: true, ahead: time.Hour},
		"an hour behind": {hides: true, ahead: -time.Hour}, "slow": {hides: true, slow: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := proves(t, q)
				require.NoError(t, a.err())
				require.Less(t, a.ladders[0].round, 20)
				require.True(t, a.gate.queues[0])
				r, ok := a.clocks[0].Read()
				truth := time.Now().Add(q.ahead)
				require.True(t, ok)
				require.False(t, r.Latest.Before(truth.Add(-time.Millisecond)), "what is due by it would be early")
			})
		})
	}
}

// TestProof_Ignored: a broker that ignores the header passes at no speed.
func TestProof_Ignored(t *testing.T) {
	for _, slow := range []time.Duration{0, 10 * time.Millisecond, 150 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			a := proves(t, queue{slow: slow})
			require.ErrorIs(t, a.err(), errIgnored)
			require.ErrorContains(t, a.err(), "p.native.wait.0 was delivered at once")
			require.False(t, a.gate.queues[0])
		})
	}
}

// TestProof_Lost: a gap in the answers is a failure.
func TestProof_Lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const firstQuestion = 2 // behind the marker that tells the date
		a := proves(t, queue{hides: true, ahead: 900 * time.Millisecond, lost: firstQuestion})
		require.ErrorContains(t, a.err(), "comes in another order")
		require.False(t, a.gate.queues[0])
	})
}

// TestProof_Early: a question that was hidden, and comes back before its time.
func TestProof_Early(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := proves(t, queue{hides: true})
		require.NoError(t, a.err())
		a.sent["x"] = question{time: time.Now().Add(time.Hour)}
		require.NoError(t, a.came(&amqp091.Delivery{Headers: amqp091.Table{delayer.Header: "x"}}))
		require.ErrorIs(t, a.err(), errIgnored)
		require.False(t, a.gate.queues[0])
	})
}
