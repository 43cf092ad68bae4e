package assess

import (
	"errors"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

func ready() Question {
	d := inventory.Definition{}
	d.Name, d.Type, d.Durable, d.Arguments = "x", inventory.DelayedMessage, true, amqp091.Table{"x-delayed-type": "direct"}
	d.Out = []objects.Bound{{Binding: topology.Binding{Source: "x", Target: "q"}}}
	return Question{
		Inventory: inventory.Inventory{
			Version: "3.13.7", ExchangeTypes: []string{"direct", inventory.DelayedMessage}, Nodes: []inventory.Node{{Name: "a", Running: true}},
			Exchanges: []inventory.Exchange{d.Exchange}, Delayed: []inventory.Definition{d},
		},
		Prefix: "p", Backend: "binaryladder", Limits: delayer.Limits{Max: PluginMax, Resolution: time.Millisecond, Ordered: true},
	}
}

func khepri(q *Question, version, state string) {
	q.Version, q.Features = version, []inventory.Feature{{Name: inventory.Khepri, State: state}}
}

// TestAssess: what each finding says, and how much it matters.
func TestAssess(t *testing.T) {
	for _, f := range Assess(ready()) {
		require.NotEqual(t, Blocker, f.Level, f)
	}
	for says, c := range map[string]struct {
		level  Level
		change func(*Question)
	}{
		"it has no Mnesia and cannot run the plugin":       {Blocker, func(q *Question) { q.Version = "4.3.0" }},
		"the plugin is not enabled":                        {Blocker, func(q *Question) { q.ExchangeTypes = nil }},
		"khepri_db is off. Enabling it deletes":            {Warning, func(q *Question) { khepri(q, "4.0.5", "disabled") }},
		"khepri_db is on":                                  {Warning, func(q *Question) { khepri(q, "4.2.0", "enabled") }},
		"has an early Khepri":                              {Blocker, func(q *Question) { khepri(q, "3.13.7", "enabled") }},
		"a second time in delayer serve: late, not lost":   {Warning, func(q *Question) { q.Version = "3.12.1" }},
		"node b: it does not run: what waits":              {Blocker, func(q *Question) { q.Nodes = append(q.Nodes, inventory.Node{Name: "b"}) }},
		"it is what you leave":                             {Blocker, func(q *Question) { q.Backend = Leaving }},
		"its longest delay is 1h":                          {Warning, func(q *Question) { q.Limits.Max = time.Hour }},
		"its tick is 1s":                                   {Warning, func(q *Question) { q.Limits.Resolution = time.Second }},
		"it has 1 delay only":                              {Warning, func(q *Question) { q.Limits.Tiers = []time.Duration{time.Hour} }},
		"equal delays do not keep their order":             {Note, func(q *Question) { q.Limits.Ordered = false }},
		`it has alternate exchange "y"`:                    {Warning, func(q *Question) { q.Delayed[0].Arguments["alternate-exchange"] = "y" }},
		"other exchanges lead to it":                       {Note, func(q *Question) { q.Delayed[0].In = q.Delayed[0].Out }},
		"It cannot be switched to delayer serve":           {Warning, func(q *Question) { q.Delayed[0].Durable = false }},
		"it is auto-delete":                                {Warning, func(q *Question) { q.Delayed[0].AutoDelete = true }},
		`its x-delayed-type is "x-random"`:                 {Blocker, func(q *Question) { q.Delayed[0].Arguments["x-delayed-type"] = "x-random" }},
		"it drops all that is due":                         {Warning, func(q *Question) { khepri(q, "4.2.0", "enabled"); q.Delayed[0].Arguments["x-delayed-type"] = "topic" }},
		"what waits on every node: could not be seen: why": {Note, func(q *Question) { q.Unreached = errors.New("why") }},
		"is no record of delayer migrate": {Note, func(q *Question) {
			q.Exchanges = append(q.Exchanges, marker(t, "done"))
			q.Exchanges[1].Name += "another"
		}},
	} {
		q := ready()
		c.change(&q)
		found := 0
		for _, f := range Assess(q) {
			if strings.Contains(f.About+": "+f.Says, says) {
				found++
				assert.Equal(t, c.level, f.Level, says)
			}
		}
		assert.Equal(t, 1, found, "%s in %v", says, Assess(q))
	}
	assert.Empty(t, Assess(Question{Inventory: inventory.Inventory{Version: "4.3.0"}}), "there is nothing to migrate")
}

// TestSteps: how far each exchange is, and what is next.
func TestSteps(t *testing.T) {
	q := ready()
	q.Exchanges = append(q.Exchanges, marker(t, "x"), marker(t, "gone"), marker(t, "done"), inventory.Exchange{Name: "done", Type: "topic"})
	next := func() (list []string) {
		for _, s := range Steps(q, func(string) bool { return true }) {
			list = append(list, s.Exchange+" "+s.Type+": "+s.Next)
		}
		return list
	}
	want := []string{
		"x x-delayed-message: switch --mode in-place again, or rollback: it was interrupted",
		"gone -: declare it, or let it be: it does not exist any more", "done topic: retire",
	}
	assert.Equal(t, want, next())
	q.Unreached, want[2] = errors.New("why"), "done topic: wait or evacuate, then retire"
	assert.Equal(t, want, next())
	q.Exchanges = q.Exchanges[:1]
	assert.Equal(t, []string{"x direct: switch"}, next())
}

// marker is the record of an exchange.
func marker(t *testing.T, exchange string) inventory.Exchange {
	m, err := record.New(inventory.Exchange{Name: exchange}, record.InPlace).Marker("p")
	require.NoError(t, err)
	return inventory.Exchange{Name: m.Name, Arguments: amqp091.Table{"alternate-exchange": m.Alternate}}
}
