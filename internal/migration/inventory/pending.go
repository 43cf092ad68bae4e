package inventory

import "context"

// Pending is what waits for an exchange of the plugin, on the node that answers.
type Pending struct {
	Exchange string
	Rows     int64
}

// Pending counts what waits for each exchange of the plugin, as far as the API knows it: for
// exchanges that are still the plugin's, and on the node that answers.
//
// The broker scans the plugin's table for the answer, once for each exchange: do not poll.
func (a *API) Pending(ctx context.Context) ([]Pending, error) {
	all, err := a.exchanges(ctx)
	var out []Pending
	for _, x := range all {
		if x.Type == DelayedMessage && x.Pending != nil {
			out = append(out, Pending{x.Name, *x.Pending})
		}
	}
	return out, err
}
