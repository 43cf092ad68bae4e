package native

import (
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Queues: -1}, "open native.queues: invalid configuration: -1 is not between 1 and 16"},
		{Config{Queues: 17}, "17 is not between"},
		{Config{Options: delayer.Options{QueueType: delayer.Classic}}, "open queue_type: invalid configuration: classic queues do not hide messages"},
	} {
		_, err := Limits(c.cfg)
		require.ErrorIs(t, err, delayer.ErrConfig)
		require.ErrorContains(t, err, c.want)
	}
}

func TestTopology(t *testing.T) {
	p, err := Topology(Config{Options: delayer.Options{Prefix: "p"}, Queues: 1})
	require.NoError(t, err)
	require.Contains(t, p.Queues, topology.Queue{Name: "p.native.wait.0", Role: role.Hidden, Args: amqp091.Table{
		"x-queue-type": "quorum", "x-message-ttl": int64(0), "x-dead-letter-exchange": "p.delivery", "x-dead-letter-strategy": "at-least-once",
		"x-overflow": "reject-publish", "x-max-length": int64(1) << 40, "x-queue-leader-locator": "balanced",
	}})
	require.Contains(t, p.Exchanges, topology.Exchange{Name: "p.native.enter", Kind: "topic"}, "without an alternate exchange")
	for _, b := range p.Bindings {
		require.NotEqual(t, "p.native.enter", b.Source, "a gate alone leads to a queue")
	}
	l, err := Limits(Config{})
	require.NoError(t, err)
	require.Equal(t, 10*365*24*time.Hour, l.Max)
	require.Equal(t, time.Millisecond, l.Resolution)
	require.True(t, l.Ordered && l.Replicated && l.SurvivesCrash && l.SurvivesRestart)
	require.Zero(t, l.CancelBefore)
}

// TestGate: keys are never those of another gate, and each leads to its queue with any number of words.
func TestGate(t *testing.T) {
	g := newGate(2)
	require.NotEqual(t, g.keys, newGate(2).keys)
	require.NotEqual(t, g.keys[0], g.keys[1])
	for _, key := range g.keys {
		require.Regexp(t, `^~d:proved:[A-Z2-7]{26}:\d$`, key, "one word")
	}
	require.Equal(t, []topology.Binding{
		{Source: "p.native.enter", Key: g.keys[0] + ".#", Target: "p.native.wait.0"},
		{Source: "p.native.enter", Key: g.keys[1] + ".#", Target: "p.native.wait.1"},
	}, g.bindings(names{prefix: "p"}))
}

// TestGate_Verdicts: one that passed counts until the connection ends, one that failed for a second.
func TestGate_Verdicts(t *testing.T) {
	g, conn := newGate(1), &amqp091.Connection{}
	known, _ := g.Known(conn)
	require.False(t, known)
	g.judged(conn, nil)
	known, err := g.Known(conn)
	require.True(t, known)
	require.NoError(t, err)
	g.judged(conn, errSilent)
	known, err = g.Known(conn)
	require.True(t, known)
	require.ErrorIs(t, err, errSilent)
	g.proved[conn] = verdict{errSilent, time.Now().Add(-failAgain)}
	known, _ = g.Known(conn)
	require.False(t, known)
}

// A queue answers questions as RabbitMQ does.
type queue struct {
	hides bool          // false: the header is ignored
	ahead time.Duration // of its clock
	slow  time.Duration // until it takes a message
}

// proves lets a proof ask a queue, in time that does not pass beside.
func proves(t *testing.T, q queue) (a *asking, rounds int, err error) {
	p := &prover{
		names: names{prefix: "p", stage: delivery.NewStage("p", true)}, log: slog.New(slog.DiscardHandler),
		clocks: []*brokertime.Interval{brokertime.NewInterval()}, dated: make([]time.Time, 1), back: broker.Returns{},
	}
	a = &asking{prover: p, ladders: make([]ladder, 1)}
	for rounds = 1; rounds < 30; rounds++ {
		l := &a.ladders[0]
		*l = ladder{times: p.times(0, l.reach), reach: l.reach, sent: p.clocks[0].Now()}
		require.IsNonDecreasing(t, millis(l.times))
		a.sent = map[string]question{}
		time.Sleep(q.slow)
		now := time.Now().Add(q.ahead)
		come := func(at int) error {
			e := message.NewEnvelope(now, 0, "")
			a.sent[e.String()] = question{0, at}
			return a.came(&amqp091.Delivery{Headers: amqp091.Table{
				delayer.Header: e.String(), "x-death": []any{amqp091.Table{"time": now.Truncate(time.Second)}},
			}})
		}
		for at, when := range l.times {
			if !q.hides || !when.After(now) {
				if err := come(at); err != nil {
					return a, rounds, err
				}
			}
		}
		if err := come(len(l.times)); err != nil {
			return a, rounds, err
		}
		if l.passed == len(l.times) && l.passed > 0 {
			if l.reach++; l.reach == len(reaches) {
				return a, rounds, a.ignored(0)
			}
			continue
		}
		if !p.fine(0) {
			continue
		}
		time.Sleep(time.Until(l.times[l.passed].Add(-q.ahead)))
		return a, rounds, come(l.passed)
	}
	return a, rounds, errSilent
}

func millis(times []time.Time) (list []int64) {
	for _, at := range times {
		list = append(list, at.UnixMilli())
	}
	return list
}

func TestProof(t *testing.T) {
	for name, q := range map[string]queue{
		"clock agrees": {hides: true}, "a minute ahead": {hides: true, ahead: time.Minute}, "an hour ahead": {hides: true, ahead: time.Hour},
		"an hour behind": {hides: true, ahead: -time.Hour}, "slow": {hides: true, slow: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			a, rounds, err := proves(t, q)
			require.NoError(t, err)
			require.True(t, a.ladders[0].proved)
			require.Less(t, rounds, 20)
			r, ok := a.clocks[0].Read()
			truth := time.Now().Add(q.ahead)
			require.True(t, ok)
			require.False(t, r.Latest.Before(truth.Add(-time.Millisecond)), "what is due by it would be early")
		})
	}
}

// TestProof_Ignored: a broker that ignores the header passes at no speed.
func TestProof_Ignored(t *testing.T) {
	for _, slow := range []time.Duration{0, 10 * time.Millisecond, 150 * time.Millisecond} {
		_, _, err := proves(t, queue{slow: slow})
		require.ErrorIs(t, err, errIgnored)
		require.ErrorContains(t, err, "p.native.wait.0 was delivered at once")
	}
}

// TestProof_Early: a question that was hidden, and comes back before its time.
func TestProof_Early(t *testing.T) {
	a, _, err := proves(t, queue{hides: true})
	require.NoError(t, err)
	l := &a.ladders[0]
	l.times[len(l.times)-1] = time.Now().Add(time.Hour)
	a.sent["x"] = question{0, len(l.times) - 1}
	require.ErrorIs(t, a.came(&amqp091.Delivery{Headers: amqp091.Table{delayer.Header: "x"}}), errIgnored)
}
