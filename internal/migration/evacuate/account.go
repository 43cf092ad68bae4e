package evacuate

import (
	"slices"

	"github.com/delayer-go/delayer/internal/migration/node"
)

// An Account says what an evacuation has done.
type Account struct {
	Before    int `json:"pending_before"` // rows of the selected exchanges when it began
	Moved     int `json:"moved"`          // out of the plugin's tables
	Found     int `json:"found"`          // left in the queues by earlier runs
	Published int `json:"published"`      // through the Delayer
	// Twice counts messages that the plugin has delivered too, because they fell due meanwhile.
	Twice int `json:"twice"`
	// Perhaps counts messages that an earlier run, which was killed, may have published too.
	Perhaps int `json:"perhaps_twice"`
	// Left counts what stays in the plugin although it is due later than Job.Leave, by the reason.
	Left map[string]int `json:"left_to_the_plugin"`
	// Refused counts what is in the queue for refused messages now, by the reason.
	Refused map[string]int `json:"refused"`
}

// Sum adds up one of the maps.
func Sum(reasons map[string]int) (n int) {
	for _, count := range reasons {
		n += count
	}
	return n
}

// selected returns the tables with the selected exchanges only.
func selected(tables []node.Table, vhost string, exchanges []string) []node.Table {
	out := slices.Clone(tables)
	for i := range out {
		out[i].Exchanges = slices.DeleteFunc(slices.Clone(out[i].Exchanges), func(w node.Waiting) bool {
			return w.Vhost != vhost || len(exchanges) > 0 && !slices.Contains(exchanges, w.Exchange)
		})
	}
	return out
}

// rows adds up all rows.
func rows(tables []node.Table) (n int) {
	for _, t := range tables {
		for _, w := range t.Exchanges {
			n += w.Rows
		}
	}
	return n
}
