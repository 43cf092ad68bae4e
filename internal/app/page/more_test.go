package page

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/standing"
	"github.com/delayer-go/delayer/internal/app/retries"
	"github.com/delayer-go/delayer/topology"
)

// tells is what the broker tells of retries, the topology and a migration.
type tells struct {
	retried  retried
	problems []backend.Problem
	stands   stands
	delayed  []inventory.Exchange
	err      error
	lists    int // how often exchanges of the plugin were listed
}

func (w *site) retried(now func() time.Time) *Retries {
	r := newRetries(true, func(context.Context, retried) (retried, error) { return w.tells.retried, w.tells.err }, now)
	w.Cleanup(r.Close)
	return r
}

func (w *site) declared(now func() time.Time) *Topology {
	t := newTopology("binaryladder", "delayer", ladder(w.T, 28), func(context.Context, []backend.Problem) ([]backend.Problem, error) {
		return w.tells.problems, w.tells.err
	}, now)
	w.Cleanup(t.Close)
	return t
}

func (w *site) migrated(now func() time.Time) *Migration {
	m := newMigration("delayer", true, func(context.Context, stands) (stands, error) { return w.tells.stands, w.tells.err },
		func(context.Context, []inventory.Exchange) ([]inventory.Exchange, error) {
			w.tells.lists++
			return w.tells.delayed, w.tells.err
		}, now)
	w.Cleanup(m.Close)
	return m
}

// ladder is a binary ladder of so many levels, with all bindings that it may ever make.
func ladder(t *testing.T, levels int) topology.Plan {
	t.Helper()
	var steps []time.Duration
	for i := range levels {
		steps = append(steps, time.Second<<i)
	}
	plan, err := backend.Topology(backend.Config{
		Options: delayer.Options{Declare: delayer.Off}, Backend: "binaryladder", BinaryLadder: binaryladder.Config{Steps: binaryladder.List(steps...)},
	})
	require.NoError(t, err)
	return plan
}

// TestDraw_Ladder: the levels of a ladder are two boxes, and each box has its place.
func TestDraw_Ladder(t *testing.T) {
	d := draw(ladder(t, 28), "delayer", map[[2]string]string{{"queue", "delayer.ladder.wait.2s"}: "missing", {"exchange", "delayer.delivery"}: "missing"})
	var text strings.Builder
	for _, b := range d.Boxes {
		fmt.Fprintf(&text, "%s (%s) %s\n", b.Title, b.About, b.Wrong)
		for _, l := range b.Leads {
			fmt.Fprintf(&text, "  %s\n", l.Text)
		}
	}
	for _, want := range []string{
		"ladder.wait.* (28 queues, quorum, 1s to ", ") 1 of 28 missing\n  → ladder.step.*, dead letters, after 1s", "ladder.step.* (28 exchanges, direct, 1s to ",
		"delivery (exchange, direct) missing\n  → bound when it is first used\n  → unroutable, otherwise\n", "  → delivery.exchanges, key ~d:gate\n",
	} {
		assert.Contains(t, text.String(), want)
	}
	assert.Less(t, len(d.Boxes), 20)
	for i, b := range d.Boxes {
		assert.Positive(t, b.Height)
		if i > 0 {
			before := d.Boxes[i-1]
			assert.GreaterOrEqual(t, b.Y, before.Y+before.Height+gap)
		}
		for _, l := range b.Leads {
			assert.Less(t, l.Y, b.Y+b.Height)
		}
	}
	assert.Less(t, d.Width, 360, "it is to be read on a telephone")
	assert.Equal(t, "ladder.enter", d.Boxes[0].Title)
}

// TestDraw_Backends: no topology is more than some boxes.
func TestDraw_Backends(t *testing.T) {
	for _, cfg := range []backend.Config{
		{Backend: "controller"}, {Backend: "binaryladder"}, {Backend: "plugin"},
		{Backend: "controller", Options: delayer.Options{QueueType: delayer.Classic}},
	} {
		if cfg.QueueType == delayer.Classic {
			cfg.Controller.Wheel = "rounds"
		}
		cfg.Declare = delayer.Off
		plan, err := backend.Topology(cfg)
		require.NoError(t, err)
		d := draw(plan, "delayer", nil)
		assert.Less(t, len(d.Boxes), 24, cfg.Backend)
		assert.Less(t, d.Width, 400, cfg.Backend)
	}
	assert.Empty(t, draw(topology.Plan{}, "p", nil).Boxes)
}

// TestDraw_Ring: what leads to itself, or in a ring, is drawn too.
func TestDraw_Ring(t *testing.T) {
	d := draw(topology.Plan{
		Exchanges: []topology.Exchange{{Name: "a", Kind: topology.Direct}, {Name: "b", Kind: topology.Fanout}},
		Queues:    []topology.Queue{{Name: "q", Args: amqp091.Table{"x-dead-letter-exchange": "a", "x-message-ttl": int64(0)}}},
		Bindings: []topology.Binding{
			{Source: "a", Target: "b", ToExchange: true, Key: "k"}, {Source: "b", Target: "a", ToExchange: true},
			{Source: "a", Target: "a", ToExchange: true, Key: "self"}, {Source: "b", Target: "q"}, {Source: "a", Target: "elsewhere"},
		},
	}, "p", nil)
	require.Len(t, d.Boxes, 3)
	var tips, lines int
	for _, a := range d.Arrows {
		lines++
		if a.Tip != "" {
			tips++
		}
	}
	assert.Equal(t, 5, lines)
	assert.Equal(t, 4, tips, "two ways to the same box are joined")
	assert.Equal(t, "→ a, dead letters, at once", d.Boxes[2].Leads[0].Text)
}

func TestCut(t *testing.T) {
	assert.Equal(t, "abc", cut("abc", 3))
	assert.Equal(t, "ab…", cut("abc", 2))
	assert.Equal(t, "a → b", cut("a → b", 5))
	assert.Equal(t, "遅延…", cut("遅延交換", 5), "wide characters take the place of two")
}

func TestTopology(t *testing.T) {
	w := newSite(t, sample("delayer"), "")
	text := w.body("/page/topology")
	for _, want := range []string{
		"holds what this configuration declares", "No policy would make messages early or late", "ladder.wait.*", "28 queues, quorum",
		`class="way dead-letter"`, "holds the configuration",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "style=", "the policy forbids it")
	assert.NotContains(t, text, "class=\"problem\"")

	w.at = w.at.Add(time.Minute)
	w.tells.problems = []backend.Problem{
		{Kind: "missing", Object: `queue "delayer.ladder.wait.2s"`, Detail: "it does not exist"},
		{Kind: "differs", Object: `exchange "delayer.delivery"`, Detail: "its type is " + evil},
		{Kind: "surplus", Object: "binding " + evil, Detail: "no Delayer has made it"},
		{Kind: "policy", Object: `queue "delayer.ladder.wait.1s"`, Detail: "a policy sets message-ttl to 1, which would make messages early"},
	}
	text = w.body("/page/topology")
	for _, want := range []string{
		"it does not exist", "made by others", "which would make messages early", "▲ 1 of 28 harmed by a policy, 1 of 28 missing", "▲ otherwise than planned",
		"<span>apply</span> <span>--config</span>", "list_policies", "&lt;script&gt;alert",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "<script>")

	w.at, w.tells.err = w.at.Add(time.Minute), &delayer.Error{Op: "look at", Kind: delayer.ErrAccess, Cause: errors.New("401")}
	text = w.body("/page/topology")
	for _, want := range []string{"The broker refuses to tell.", "This is what was known", "14:01:30 UTC", "it does not exist", `class="old"`} {
		assert.Contains(t, text, want)
	}

	w.Topology.note = "Give management."
	assert.Contains(t, w.body("/page/topology"), "It is not known. Give management.")
}

// TestTopology_Many: one policy may harm every queue.
func TestTopology_Many(t *testing.T) {
	w := newSite(t, sample("delayer"), "")
	for i := range 3 * mostWrong {
		kind := "missing"
		if i%2 == 0 {
			kind = "policy"
		}
		w.tells.problems = append(w.tells.problems, backend.Problem{Kind: kind, Object: fmt.Sprintf("queue %q", fmt.Sprint(i)), Detail: "d"})
	}
	text := w.body("/page/topology")
	assert.Contains(t, text, "200 more are not shown")
}

func TestMigration(t *testing.T) {
	w := newSite(t, sample("delayer"), "")
	assert.Contains(t, w.body("/page/migration"), "There is nothing to migrate: the plugin is not enabled on this broker")
	assert.Contains(t, w.body("/page/migration?plugin=list"), "There is nothing to migrate")
	assert.Zero(t, w.tells.lists, "there can be none")

	w.at, w.tells.stands = w.at.Add(time.Minute), stands{Enabled: true}
	assert.Contains(t, w.body("/page/migration"), "No migration has begun. The plugin is enabled: it may have exchanges.")
	assert.Zero(t, w.tells.lists, "that costs much")
	assert.Contains(t, w.body("/page/migration?plugin=list"), "no exchange of this virtual host is the plugin's")
	assert.Equal(t, 1, w.tells.lists)

	since, n := asked.Add(-time.Hour), 1234
	w.at = w.at.Add(time.Hour)
	w.tells.delayed = []inventory.Exchange{{Name: "遅延 " + evil}}
	w.tells.stands.Exchanges = []*standing.Exchange{
		{Exchange: "orders", Step: record.Switched, Mode: record.Serving, Since: &since, Serve: &n, Next: standing.Waits},
		{Exchange: "queue q", Busy: true, Next: "wait: a tool works on it"},
	}
	text := w.body("/page/migration?plugin=list")
	for _, want := range []string{
		"switched, serve", "1,234", "drain or evacuate, then retire", "<span>drain</span> <span>--config</span> <span>delayer.yaml</span> <span>--exchange=orders</span>", "under way",
		"not begun", "<span>--exchange=&#39;遅延</span> <span>&lt;script", "2h 1m ago",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "<script>")
	assert.Equal(t, 2, w.tells.lists)
	w.body("/page/migration?plugin=list")
	assert.Equal(t, 2, w.tells.lists, "at most once a minute")

	w.at, w.tells.err = w.at.Add(time.Hour), errors.New("delayer: it is gone")
	text = w.body("/page/migration?plugin=list")
	assert.Contains(t, text, "The exchanges of the plugin are not known.")
	assert.Contains(t, text, "it is gone")
	assert.Contains(t, text, "switched, serve", "what was known stays")
	w.Migration.managed = false
	assert.Contains(t, w.body("/page/migration"), "in the configuration")
}

func TestRetries(t *testing.T) {
	w := newSite(t, undeliveredSample(), "")
	assert.Contains(t, w.body("/page/retries"), "No queue of parked messages is known")

	ended, rate := 98765, 1.25
	w.at = w.at.Add(time.Minute)
	long := strings.Repeat("ü", 127) + "/"
	w.tells.retried = retried{More: 3, Queues: []retries.Queue{
		{Name: "delayer" + evil, Parked: "delayer" + evil + ".parked", There: true, Ready: 1, Handling: 2, Workers: 3, Given: 4, Ended: &ended, Rate: &rate},
		{Name: long, Parked: long + ".parked", There: true, Ready: 7},
		{Name: "遅延", Parked: "遅延.parked"},
	}}
	text := w.body("/page/retries")
	for _, want := range []string{"98,765", ">1.25<", "nobody consumes it", "there is no such queue", "遅延", "3 more, with fewer", "delayer_retry_attempts_total"} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "<script>", "all but the page's own is text")
	assert.Contains(t, text, "/page/retries/parked?queue=delayer%3cscript%3e", "it is escaped")

	w.put("a", "", nil)
	w.put("b", "", nil)
	w.put(evil, "", nil)
	w.heap[1].Attempts, w.heap[0].Attempts = "4 attempts", "4 attempts"
	w.heap[1].Since = asked.Add(-time.Hour)
	text = w.body("/page/retries/parked?queue=" + url.QueryEscape("delayer.parked"))
	for _, want := range []string{"3 messages given up", "4 attempts", `<td class="number">2</td>`, `width="1000"`, `width="500"`, "1h 1m ago"} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "<script>")
	assert.Contains(t, w.ask("GET", "/page/retries/parked?queue=orders", nil).Body.String(), "no queue of that name")

	w.at, w.tells.err = w.at.Add(time.Minute), context.DeadlineExceeded
	text = w.body("/page/retries")
	assert.Contains(t, text, "The broker does not answer.")
	assert.Contains(t, text, "98,765")
}

func TestTallies(t *testing.T) {
	counts := map[string]int{"c": 1, "b": 4000, "a": 1}
	list, more := tallies(counts, 2)
	assert.Equal(t, []tally{{"b", 4000, 1000}, {"a", 1, 4}}, list)
	assert.Equal(t, 1, more)
	list, _ = tallies(nil, 2)
	assert.Empty(t, list)
}

// TestMarks: names come back from the sentences that quote them.
func TestMarks(t *testing.T) {
	name := "a\"b\\ü\x00<script>"
	require.True(t, utf8.ValidString(name))
	found := marks([]backend.Problem{
		{Kind: "policy", Object: fmt.Sprintf("queue %q", name)}, {Kind: "missing", Object: fmt.Sprintf("queue %q", name)},
		{Kind: "missing", Object: `binding from "x" to "y"`}, {Kind: "missing", Object: `exchange "x`},
	})
	assert.Equal(t, map[[2]string]string{{"queue", name}: "harmed by a policy"}, found)
}
