// Package assess says what a migration needs and what stands in its way. It is pure: it takes what
// package inventory read.
package assess

import (
	"cmp"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/topology"
)

// A Question is what is known beside the inventory.
type Question struct {
	inventory.Inventory
	Prefix   string
	Declares bool          // the configuration declares its topology
	Topology topology.Plan // of the configuration
	// Candidates are backends that may take over, the best first; the configuration's leads.
	Candidates []Candidate
	// Longest and Finest are x-delays that the user knows of; 0 if not given.
	Longest, Finest time.Duration
	// Waiting is what waits on each node, if Asked: rabbitmqctl was run.
	Waiting []Waiting
	Asked   bool
}

// A Candidate is a backend with its settings.
type Candidate struct {
	Backend    string
	Settings   string // further lines of the configuration file; "" for the defaults
	Configured bool   // it is the configuration's, with its settings
	Limits     delayer.Limits
	About      delayer.About
}

// Waiting is what waits for one exchange on one node.
type Waiting struct {
	Node, Exchange string
	Messages       int
	Latest         time.Duration // until the last is due
}

// An Assessment is the answer. Its JSON is for scripts.
type Assessment struct {
	// Ready reports that nothing stands in the way: no finding is a [Blocker].
	Ready    bool   `json:"ready"`
	Vhost    string `json:"vhost"`
	RabbitMQ string `json:"rabbitmq"`
	// Enabled reports that the broker has the plugin's exchange type.
	Enabled   bool               `json:"plugin_enabled"`
	Plugin    string             `json:"plugin,omitempty"` // its version, known some seconds after a start
	Nodes     []string           `json:"nodes"`
	Exchanges []Exchange         `json:"exchanges"`
	Delays    Delays             `json:"delays"`
	Backends  []Backend          `json:"backends"` // none where nothing is to be migrated
	Changes   []Change           `json:"changes"`
	Findings  []Finding          `json:"findings"` // blockers first
	Others    []Ladder           `json:"others"`   // delays of NServiceBus and Celery
	Unseen    []inventory.Unseen `json:"unseen"`
}

// A Level says how much a finding matters.
type Level string

// The levels.
const (
	Blocker Level = "blocker" // stands in the way
	Warning Level = "warning" // is to be decided, or kept in mind, before the switch
	Note    Level = "note"
)

// A Finding is something that matters to the migration, and what to do about it.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"` // an object of the broker, or a subject
	Says  string `json:"says"`
	Do    string `json:"do,omitempty"`
}

// Assess answers. Findings are sorted by level. Within one the order is that of the checks.
func Assess(q Question) Assessment {
	a := Assessment{
		Vhost: q.Vhost, RabbitMQ: q.Version, Enabled: enabled(q), Nodes: []string{}, Delays: delays(q),
		Exchanges: exchanges(q), Backends: []Backend{}, Changes: []Change{}, Findings: begun(q),
		Others: ladders(q.Queues), Unseen: unseen(q),
	}
	for _, n := range q.Nodes {
		a.Nodes, a.Plugin = append(a.Nodes, n.Name), cmp.Or(a.Plugin, n.Plugin)
	}
	if len(q.Delayed) > 0 {
		a.Backends = backends(q.Candidates, a.Delays)
		a.Changes = changes(q, a.Backends)
		var found []Finding
		for _, check := range []func(Question) []Finding{
			series, way, clusterNodes, permissions, conflicts, policies, declarations, exchangeFindings, neighbours,
		} {
			found = append(found, check(q)...)
		}
		a.Findings = slices.Concat(found, delayFindings(q, &a), a.Findings)
		levels := []Level{Blocker, Warning, Note}
		slices.SortStableFunc(a.Findings, func(f, g Finding) int {
			return slices.Index(levels, f.Level) - slices.Index(levels, g.Level)
		})
	}
	a.Ready = !slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Level == Blocker })
	return a
}

func unseen(q Question) []inventory.Unseen {
	list := append([]inventory.Unseen{}, q.Unseen...)
	if len(q.Delayed) == 0 {
		return list
	}
	if !q.Asked && q.Longest == 0 {
		list = append(list, inventory.Unseen{
			What: "the longest x-delay", Why: "it is in headers that no API shows (give --rabbitmqctl, which sees what waits, or --longest)",
		})
	}
	if q.Finest == 0 {
		list = append(list, inventory.Unseen{
			What: "the finest x-delay", Why: "it is in headers that no API shows (give --finest, such as 1.5s, if your code says)",
		})
	}
	return append(list, unseenPatterns(q)...)
}
