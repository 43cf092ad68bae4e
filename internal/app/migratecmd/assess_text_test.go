package migratecmd

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/assess"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
)

// TestAssess_Page: it fits into 80 columns, apart from what is longer by itself.
func TestAssess_Page(t *testing.T) {
	pending := int64(1_000_000)
	var to []assess.OtherEnd
	for range mostBindings + 2 {
		to = append(to, assess.OtherEnd{Kind: "queue", Name: "q", Key: "k", Arguments: map[string]any{"x": 1}})
	}
	words := strings.Repeat("müßte umgebrochen werden ", 10)
	a := assess.Assessment{
		Vhost: "/", RabbitMQ: "4.0.5", Nodes: []string{"a", "b"}, Enabled: true, Plugin: "4.0.7",
		Exchanges: []assess.Exchange{
			{Name: "orders", Type: "topic", Pending: &pending, Rate: 12.34, To: to, AlternateOf: []string{"front", "rear"}},
			{Name: "a name", Type: "direct"},
		},
		Delays:   assess.Delays{Longest: 60_000, Finest: 1500},
		Backends: []assess.Backend{{Backend: "ladder", Why: words}, {Backend: "controller", Settings: "controller: {}", Fits: true, Recommended: true, Why: "because"}, {Backend: "x", Fits: true, Why: "because"}},
		Changes:  []assess.Change{{What: "header", Before: words, After: words}},
		Findings: []assess.Finding{{Level: assess.Blocker, About: "user u", Says: words, Do: words}, {Level: assess.Note, About: "b", Says: words}},
		Others:   []assess.Ladder{{Library: "NServiceBus", Queues: "nsb.v2.delay-level-", Levels: 28, Messages: 3, Drained: 7000, Do: words}},
		Unseen:   []inventory.Unseen{{What: "it", Why: words}},
	}
	var page strings.Builder
	require.NoError(t, writeAssessment(&page, a))
	for line := range strings.Lines(page.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), pageWidth, line)
	}
	for _, want := range []string{
		"RabbitMQ 4.0.5 with the plugin 4.0.7, 2 nodes, vhost \"/\".\n",
		"\nEXCHANGE  TYPE    PENDING   PUBLISHED  BOUND TO  BOUND FROM  ALTERNATE OF\norders    topic   1000000+  12.3/s     12        0           front and 1 more\n\"a name\"  direct  ?         0.0/s      0         0           -\n",
		"\norders  k and 1 argument  queue q\n", "\nand 2 more bindings (--output json has all)\n",
		"\nIn the way\n  user u: müßte", "\n    → müßte",
		"\nWhich backend fits x-delays up to 1m, such as 1.5s\n  no    backend: ladder, with its defaults\n        müßte", "\n  best  backend: controller and controller: {}\n", "\n  yes   backend: x, with its defaults\n        because\n",
		"  NServiceBus: 28 queues nsb.v2.delay-level-*: 3 messages, the last due within\n  7s\n    → müßte",
		"\nCould not be seen\n  it: müßte",
	} {
		require.Contains(t, page.String(), want)
	}
	require.NotContains(t, page.String(), "Nothing stands in the way")
}
