package assess

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// question is one where nothing stands in the way.
func question() Question {
	pending := int64(7)
	orders := inventory.Exchange{Name: "orders", Type: inventory.DelayedMessage, Durable: true, Arguments: amqp091.Table{"x-delayed-type": "topic"}}
	return Question{
		Inventory: inventory.Inventory{
			Vhost: "/", User: "app", Version: "3.10.8", ExchangeTypes: []string{"direct", inventory.DelayedMessage},
			Nodes:     []inventory.Node{{Name: "rabbit@a", Running: true, Plugin: "3.10.2"}},
			Features:  []inventory.Feature{{Name: "quorum_queue", State: "enabled"}},
			Exchanges: []inventory.Exchange{orders},
			Delayed: []inventory.Delayed{{Definition: inventory.Definition{Exchange: orders,
				Out: []inventory.BindingInfo{{Source: "orders", Target: "invoices", Key: "#"}},
			}, Pending: &pending, Rate: 2}},
			Permission: &inventory.Permission{Configure: ".*", Write: ".*", Read: ".*"},
		},
		Prefix: "delayer", Declares: true,
		Topology: topology.Plan{
			Markers:   []topology.Marker{{Name: "delayer.marker", Config: "delayer:ladder"}},
			Exchanges: []topology.Exchange{{Name: "delayer.in", Kind: topology.Direct}, {Name: "delayer.delivery", Kind: topology.Direct, Alternate: "delayer.unroutable"}},
			Queues:    []topology.Queue{objects.WaitingQueue("delayer.wait", delayer.Quorum, time.Minute, "delayer.in")},
		},
		Candidates: []Candidate{
			{Backend: "ladder", Configured: true, Limits: delayer.Limits{Max: PluginMax, Resolution: time.Millisecond, Ordered: true, SurvivesCrash: true, Replicated: true}, About: delayer.About{Needs: "nothing", Deaths: true}},
			{Backend: "controller", Limits: delayer.Limits{Max: 10 * PluginMax, Resolution: time.Millisecond, SurvivesCrash: true}, About: delayer.About{Needs: "a controller"}},
		},
	}
}

func TestFindings(t *testing.T) {
	delayed := func(q *Question) *inventory.Delayed { return &q.Delayed[0] }
	another := func(q *Question, x inventory.Exchange) { q.Exchanges = append(q.Exchanges, x) }
	for name, c := range map[string]struct {
		change func(*Question)
		level  Level
		says   string
	}{
		"always: applications that declare": {func(*Question) {}, Warning, "406 PRECONDITION_FAILED"},
		"always: negative x-delay":          {func(*Question) {}, Note, "one that is zero or negative is delivered at once"},
		"4.3":                               {func(q *Question) { q.Version, q.ExchangeTypes = "4.3.6", nil }, Blocker, "it has no Mnesia and cannot run the plugin"},
		"5.0":                               {func(q *Question) { q.Version, q.ExchangeTypes = "5.0.0", nil }, Blocker, "it has no Mnesia"},
		"disabled":                          {func(q *Question) { q.ExchangeTypes = nil }, Blocker, "the plugin is not enabled"},
		"4.0, Khepri off":                   {func(q *Question) { q.Version = "4.0.5" }, Warning, "feature flag khepri_db is off. Enabling it deletes the plugin's tables"},
		"4.2, Khepri on": {func(q *Question) {
			q.Version = "4.2.0"
			q.Features = append(q.Features, inventory.Feature{Name: "khepri_db", State: "enabled"})
		}, Warning, "feature flag khepri_db is on"},
		"4.2, Khepri, a topic": {func(q *Question) {
			q.Version, delayed(q).Arguments = "4.2.9", amqp091.Table{"x-delayed-type": "topic"}
			q.Features = append(q.Features, inventory.Feature{Name: "khepri_db", State: "enabled"})
		}, Warning, `exchange "orders": it drops all that is due`},
		"switch without rabbitmqctl": {func(*Question) {}, Warning, "switch: without --rabbitmqctl an exchange is deleted"},
		"switch in Mnesia":           {func(q *Question) { q.Asked = true }, Note, "switch: with --rabbitmqctl it takes one transaction of Mnesia"},
		"switch in Khepri": {func(q *Question) {
			q.Version, q.Asked = "4.2.9", true
			q.Features = append(q.Features, inventory.Feature{Name: "khepri_db", State: "enabled"})
		}, Note, "switch: with --rabbitmqctl it takes one transaction of Khepri"},
		"switch in an early Khepri": {func(q *Question) {
			q.Version, q.Asked = "3.13.7", true
			q.Features = append(q.Features, inventory.Feature{Name: "khepri_db", State: "enabled"})
		}, Warning, "switch: RabbitMQ 3.13.7 has an early Khepri"},
		"4.2, flags unseen":       {func(q *Question) { q.Version, q.Features = "4.2.0", nil }, Warning, "whether it is on cannot be seen"},
		"before 3.13":             {func(*Question) {}, Warning, "mode serve: before RabbitMQ 3.13"},
		"3.9":                     {func(q *Question) { q.Version = "3.9.29" }, Warning, "tested from 3.10 on"},
		"no quorum queues":        {func(q *Question) { q.Features[0].State = "disabled" }, Blocker, "feature flag quorum_queue"},
		"node down":               {func(q *Question) { q.Nodes = append(q.Nodes, inventory.Node{Name: "rabbit@b"}) }, Blocker, "node rabbit@b: it does not run"},
		"node without the plugin": {func(q *Question) { q.Nodes = append(q.Nodes, inventory.Node{Name: "rabbit@b", Running: true}) }, Warning, "it does not run the plugin"},
		"cluster":                 {func(q *Question) { q.Nodes = append(q.Nodes, q.Nodes[0]) }, Note, "each of the 2 nodes has a table of its own"},
		"may not configure":       {func(q *Question) { q.Permission.Configure = "^delayer" }, Blocker, `permission to configure is missing for "orders"`},
		"may not write a target":  {func(q *Question) { q.Permission.Write = "^(delayer|orders)" }, Blocker, `permission to write is missing for "invoices"`},
		"may not read a source": {func(q *Question) {
			delayed(q).In = []inventory.BindingInfo{{Source: "front", Target: "orders"}}
			q.Permission.Read = "^(delayer|orders)"
		}, Blocker, `permission to read is missing for "front"`},
		"may nothing":       {func(q *Question) { q.Permission = &inventory.Permission{} }, Blocker, `and 3 more (it has "")`},
		"imported: may not": {func(q *Question) { q.Declares = false; q.Permission.Configure = "^orders" }, Blocker, `permission to configure is missing for "delayer.migration." (it has`},
		"policy harms": {func(q *Question) {
			q.Policies = []inventory.Policy{{Name: "p", Pattern: ".*", ApplyTo: "all", Definition: map[string]any{"expires": 5.0}}}
		}, Blocker, `queue "delayer.wait": a policy sets expires to 5`},
		"quorum policy": {func(q *Question) {
			q.Policies = []inventory.Policy{{Pattern: "", ApplyTo: "quorum_queues", Definition: map[string]any{"expires": 5.0}}}
		}, Blocker, "expires"},
		"operator policy harms": {func(q *Question) {
			q.OperatorPolicies = []inventory.Policy{{Pattern: "^delayer", ApplyTo: "queues", Definition: map[string]any{"message-ttl": 5.0}}}
		}, Blocker, "message-ttl to 5"},
		"exchange in use": {func(q *Question) { another(q, inventory.Exchange{Name: "delayer.in", Type: "fanout", Durable: true}) }, Blocker, `exchange "delayer.in": the name is needed and in use: its type is fanout, want direct`},
		"another alternate": {func(q *Question) {
			another(q, inventory.Exchange{Name: "delayer.in", Type: "direct", Durable: true, Arguments: amqp091.Table{"alternate-exchange": "x"}})
		}, Blocker, `alternate-exchange is "x", want not set`},
		"transient": {func(q *Question) { another(q, inventory.Exchange{Name: "delayer.in", Type: "direct"}) }, Blocker, "durable is false, want true"},
		"auto-delete in use": {func(q *Question) {
			another(q, inventory.Exchange{Name: "delayer.in", Type: "direct", Durable: true, AutoDelete: true})
		}, Blocker, "auto_delete is true, want false"},
		"prefix of another": {func(q *Question) {
			another(q, inventory.Exchange{Name: "delayer.marker", Type: "fanout", Arguments: amqp091.Table{"alternate-exchange": "delayer:other"}})
		}, Blocker, "prefix delayer: a Delayer of another configuration uses it"},
		"queue in use":    {func(q *Question) { q.Queues = []inventory.Queue{{Name: "delayer.wait", Arguments: amqp091.Table{}}} }, Blocker, `queue "delayer.wait": the name is needed and in use`},
		"migration begun": {func(q *Question) { q.Queues = []inventory.Queue{{Name: "delayer.migration.abc"}} }, Note, "a migration has begun"},
		"alternate of another": {func(q *Question) {
			another(q, inventory.Exchange{Name: "front", Arguments: amqp091.Table{"alternate-exchange": "orders"}})
		}, Note, `the alternate exchange of "front"`},
		"has an alternate": {func(q *Question) { delayed(q).Arguments["alternate-exchange"] = "rest" }, Warning, `it has alternate exchange "rest", to which the plugin gives a copy`},
		"alternate by policy": {func(q *Question) {
			delayed(q).Policy = "p"
			q.Policies = []inventory.Policy{{Name: "p", Pattern: "^orders", Definition: map[string]any{"alternate-exchange": "rest"}}}
		}, Warning, `it has alternate exchange "rest"`},
		"policy applies": {func(q *Question) {
			delayed(q).Policy = "p"
			q.Policies = []inventory.Policy{{Name: "p", Pattern: "^orders", Definition: map[string]any{"b": 1.0, "a": 1.0}}}
		}, Note, `policy "p" applies (a, b)`},
		"federated": {func(q *Question) {
			delayed(q).Policy = "p"
			q.Policies = []inventory.Policy{{Name: "p", Pattern: "^orders", Definition: map[string]any{"federation-upstream-set": "all"}}}
		}, Warning, `policy "p" federates it`},
		"shovel to it":           {func(q *Question) { q.Shovels = []inventory.Shovel{{Name: "s", TargetExchange: "orders"}} }, Warning, `shovel "s": it publishes to exchange "orders"`},
		"shovel from it":         {func(q *Question) { q.Shovels = []inventory.Shovel{{Name: "s", SourceExchange: "orders"}} }, Note, "it consumes from"},
		"target of bindings":     {func(q *Question) { delayed(q).In = []inventory.BindingInfo{{Source: "front", Target: "orders"}} }, Note, "other exchanges lead to it"},
		"transient, delayed":     {func(q *Question) { delayed(q).Durable = false }, Warning, "it is transient"},
		"auto-delete":            {func(q *Question) { delayed(q).AutoDelete = true }, Warning, "it is auto-delete"},
		"another type":           {func(q *Question) { delayed(q).Arguments["x-delayed-type"] = "x-random" }, Warning, `its x-delayed-type is "x-random"`},
		"nothing bound":          {func(q *Question) { delayed(q).Out = nil }, Note, "nothing is bound to it"},
		"tick, assumed":          {func(q *Question) { q.Candidates[0].Limits.Resolution = time.Second }, Warning, "backend ladder: as configured, its tick is 1s: a delay of 1.5s becomes 2s"},
		"tick, known":            {func(q *Question) { q.Candidates[0].Limits.Resolution = time.Second; q.Finest = 2250 * time.Millisecond }, Warning, "a delay of 2.25s becomes 3s"},
		"too short, assumed":     {func(q *Question) { q.Candidates[0].Limits.Max = time.Hour }, Warning, "its longest delay is 1h, and 49.7 days is needed"},
		"too short, known":       {func(q *Question) { q.Candidates[0].Limits.Max, q.Longest = time.Hour, 2*time.Hour }, Blocker, "its longest delay is 1h, and 2h is needed"},
		"tiers":                  {func(q *Question) { q.Candidates[0].Limits.Tiers = []time.Duration{1, 2} }, Warning, "it has 2 delays only"},
		"the plugin again":       {func(q *Question) { q.Candidates[0].Backend = "plugin" }, Blocker, "it is what you leave"},
		"what waits is asked of": {func(q *Question) { q.Asked = true; q.Waiting = []Waiting{{"rabbit@a", "orders", 3, time.Hour}} }, Note, "the last message that waits now is due in 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			q := question()
			c.change(&q)
			a := Assess(q)
			var all []string
			for _, f := range a.Findings {
				line := string(f.Level) + " " + f.About + ": " + f.Says
				all = append(all, line)
				if f.Level == Blocker {
					require.NotEmpty(t, f.Do, "each says what to do: %s", line)
				}
				if f.Level == c.level && strings.Contains(line, c.says) {
					require.Equal(t, c.level != Blocker, a.Ready)
					return
				}
			}
			require.Failf(t, "not found", "%s %q in:\n%s", c.level, c.says, strings.Join(all, "\n"))
		})
	}
}

// TestNothingInTheWay: nothing is found that is not there.
func TestNothingInTheWay(t *testing.T) {
	q := question()
	q.Exchanges = append(q.Exchanges,
		inventory.Exchange{Name: "delayer.in", Type: "direct", Durable: true},
		inventory.Exchange{Name: "delayer.marker", Type: "fanout", Arguments: amqp091.Table{"alternate-exchange": "delayer:ladder"}})
	q.Queues = []inventory.Queue{{Name: "delayer.wait", Arguments: q.Topology.Queues[0].Args}}
	q.Policies = []inventory.Policy{
		{Pattern: `^(?!delayer\.)`, ApplyTo: "all", Definition: map[string]any{"expires": 5.0}},
		{Pattern: "", ApplyTo: "all", Priority: -1, Definition: map[string]any{"message-ttl": 1e9}},
		{Pattern: ".*", ApplyTo: "exchanges", Definition: map[string]any{"expires": 5.0}},
		{Pattern: ".*", ApplyTo: "classic_queues", Definition: map[string]any{"expires": 5.0}},
	}
	a := Assess(q)
	require.True(t, a.Ready)
	for _, f := range a.Findings {
		require.Contains(t, []string{"applications", "x-delay", "mode serve", "switch"}, f.About, "%+v", f)
	}
	require.Len(t, a.Unseen, 2, "the delays")
}

func TestBackends_TheFirstThatFits(t *testing.T) {
	q := question()
	a := Assess(q)
	require.Equal(t, []bool{true, false}, []bool{a.Backends[0].Recommended, a.Backends[1].Recommended})
	require.Equal(t, "every delay up to 49.7 days in steps of 1ms", a.Backends[0].Why)
	require.Equal(t, "backend: ladder, as configured", a.Backends[0].String())
	require.NotContains(t, changeOf(a), "equal delays")

	q.Candidates[0].Limits.Resolution = time.Second
	a = Assess(q)
	require.Equal(t, []bool{false, true}, []bool{a.Backends[0].Recommended, a.Backends[1].Recommended})
	require.Contains(t, a.Backends[1].Why, "do not keep their order; needs a controller")
	require.Contains(t, changeOf(a), "equal delays")

	q.Finest = 2 * time.Second
	require.True(t, Assess(q).Backends[0].Recommended)
}

func changeOf(a Assessment) (what []string) {
	for _, c := range a.Changes {
		what = append(what, c.What)
	}
	return what
}

func TestExchanges_PendingOfAllNodes(t *testing.T) {
	q := question()
	x := Assess(q).Exchanges[0]
	require.EqualValues(t, 7, *x.Pending)
	require.True(t, x.AllNodes)
	q.Nodes = append(q.Nodes, q.Nodes[0])
	require.False(t, Assess(q).Exchanges[0].AllNodes, "each node has a table")
	q.Asked = true
	q.Waiting = []Waiting{{"a", "orders", 3, time.Hour}, {"b", "orders", 4, time.Minute}, {"b", "other", 5, 0}}
	a := Assess(q)
	require.EqualValues(t, 7, *a.Exchanges[0].Pending)
	require.True(t, a.Exchanges[0].AllNodes)
	require.EqualValues(t, time.Hour.Milliseconds(), *a.Delays.Latest)
}

func TestNoDelayedExchange(t *testing.T) {
	q := question()
	q.Delayed, q.Version, q.ExchangeTypes = nil, "4.3.6", nil
	a := Assess(q)
	require.True(t, a.Ready)
	require.Empty(t, a.Findings)
	text, err := json.Marshal(a)
	require.NoError(t, err)
	require.NotContains(t, string(text), "null,", "empty lists are lists")
}

func TestLadders(t *testing.T) {
	queue := func(name string, ttl, messages int64) inventory.Queue {
		return inventory.Queue{Name: name, Messages: messages, Arguments: amqp091.Table{"x-message-ttl": ttl}}
	}
	q := question()
	q.Queues = []inventory.Queue{
		queue("celery_delayed_0", 1000, 0), queue("celery_delayed_1", 2000, 0),
		queue("nsb.v2.delay-level-00", 1000, 1), queue("nsb.v2.delay-level-01", 2000, 0), queue("nsb.v2.delay-level-02", 4000, 5),
		queue("nsb.v2.delay-level-10", 1024000, 0), queue("nsb.v2.delay-level-x", 1, 9), queue("my.celery_delayed_1", 1, 9),
	}
	found := Assess(q).Others
	require.Len(t, found, 2)
	require.Equal(t, "NServiceBus", found[0].Library)
	require.Equal(t, 4, found[0].Levels)
	require.EqualValues(t, 6, found[0].Messages)
	require.EqualValues(t, 7000, found[0].Drained, "level 2 and all below")
	require.Equal(t, "Celery (kombu)", found[1].Library)
	require.Zero(t, found[1].Drained)
	require.Contains(t, found[1].Do, "delete the exchanges and queues celery_delayed_*")
	q.Delayed = nil
	require.Len(t, Assess(q).Others, 2, "also without the plugin")
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "x", true}, {"a", "bab", true}, {"^a$", "ab", false},
		{`^(?!delayer\.)`, "delayer.in", false}, {`^(?!delayer\.)`, "delayerXin", true}, {`^(?!delayer\.)`, "orders", true},
		{`^(?!(a|b)\))x`, "x", true}, {`^(?!(a|b))x`, "ax", false}, {`^(?!amq\.).*s$`, "orders", true}, {`^(?!amq\.).*s$`, "order", false},
	} {
		p, ok := compile(c.pattern)
		require.True(t, ok, c.pattern)
		require.Equal(t, c.want, p.matches(c.name), "%s %s", c.pattern, c.name)
	}
	for _, text := range []string{"(?<=a)b", "^(?!a", "(", "^(?!(?=a))b"} {
		_, ok := compile(text)
		require.False(t, ok, text)
	}
}

// TestUnseen: a pattern that cannot be judged is neither harm nor leave.
func TestUnseen(t *testing.T) {
	q := question()
	q.Policies = []inventory.Policy{{Name: "odd", Pattern: "(?<=a)b", ApplyTo: "all", Definition: map[string]any{"expires": 5.0}}}
	q.Permission.Write = "(?<=a)b"
	q.Longest, q.Finest = time.Hour, time.Second
	q.Inventory.Unseen = []inventory.Unseen{{What: "the shovels", Why: "401"}}
	a := Assess(q)
	require.True(t, a.Ready)
	require.Len(t, a.Unseen, 3)
	require.Equal(t, "the shovels", a.Unseen[0].What)
	require.Equal(t, `the effect of policy "odd"`, a.Unseen[1].What)
	require.Equal(t, "the permission of user app to write", a.Unseen[2].What)
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1.5s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Second: "10s",
		time.Hour + time.Second: "1h0m1s", PluginMax: "49.7 days", 3 * 365 * 24 * time.Hour: "3.0 years",
	} {
		require.Equal(t, want, Span(d))
	}
}
