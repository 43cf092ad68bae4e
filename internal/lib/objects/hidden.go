package objects

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

// HiddenLag is how old the answers of [Hidden] may be: a queue tells its counts every five seconds,
// and the API's node gathers them every five seconds.
const HiddenLag = 12 * time.Second

// Hidden asks the management API how many messages wait in the queues of p whose role is
// role.Hidden, by name. AMQP counts those alone that are not hidden any more. A queue that does
// not exist, or that has not told yet, is not in the answer.
func Hidden(ctx context.Context, api *management.Client, vhost string, p topology.Plan) (map[string]int, error) {
	counts, ours := map[string]int{}, map[string]bool{}
	text := "" // that the names have in common: they differ in their last word
	for _, q := range p.Queues {
		if q.Role == role.Hidden {
			ours[q.Name], text = true, q.Name[:strings.LastIndex(q.Name, ".")+1]
		}
	}
	queues, err := management.List[struct {
		Name    string `json:"name"`
		Ready   int    `json:"messages_ready"`
		Delayed *int   `json:"messages_delayed"`
	}](ctx, api, management.Request{
		Op: "count", Path: management.Path("queues", vhost), Query: url.Values{"columns": {"name,messages_ready,messages_delayed"}},
	}, text)
	for _, q := range queues {
		if ours[q.Name] && q.Delayed != nil {
			counts[q.Name] = *q.Delayed + q.Ready
		}
	}
	return counts, err
}

// Uncounted returns an error that names the first queue of p whose role is role.Hidden that
// exists and is not counted.
func Uncounted(p topology.Plan, exist map[string]State, counts map[string]int) error {
	for _, q := range p.Queues {
		_, there := exist[q.Name]
		if _, counted := counts[q.Name]; q.Role == role.Hidden && there && !counted {
			return fmt.Errorf("the management API does not tell messages_delayed of queue %s: it has not been told yet, or never is with management.disable_stats", q.Name)
		}
	}
	return nil
}
