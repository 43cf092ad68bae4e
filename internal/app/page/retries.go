package page

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/retries"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

const retriesPath = "/page/retries"

const retriesWithin = time.Minute // for one answer

// Retries know the queues that package retry consumes.
type Retries struct {
	managed bool
	queues  *question[retried]
}

type retried struct {
	Queues []retries.Queue
	More   int
}

// NewRetries finds the queues of a configuration's virtual host, until Close.
func NewRetries(cfg backend.Config) (*Retries, error) {
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	return newRetries(cfg.Management != "", func(ctx context.Context, _ retried) (f retried, err error) {
		f.Queues, f.More, err = retries.Read(ctx, settings)
		return f, err
	}, time.Now), nil
}

func newRetries(managed bool, ask func(context.Context, retried) (retried, error), now func() time.Time) *Retries {
	return &Retries{managed: managed, queues: newQuestion(retriesWithin, now, ask)}
}

// Close ends what is under way.
func (r *Retries) Close() { r.queues.Close() }

// retriesView is the page.
type retriesView struct {
	reading[retried]
	Managed bool
}

func (p *Page) retries(w http.ResponseWriter, r *http.Request, v *visitor) {
	view := retriesView{Managed: p.Retries.managed}
	if view.Managed {
		view.reading = p.Retries.queues.look(r.Context(), briefly)
	}
	p.show(w, http.StatusOK, "retries", frame{Title: "Retries", At: retriesPath, Visitor: v, Live: true, Again: view.Coming, Content: view})
}

// A tally is how often there is something.
type tally struct {
	Text  string
	Count int
	Share int // of the most frequent, in thousandths
}

// givenUp is what the parked messages of a queue tell.
type givenUp struct {
	Queue         string
	Sought, Total int // Sought: the oldest, which were looked at
	Attempts, Why []tally
	More          int // reasons that are not shown
	First, Last   time.Time
	Since         int // how many tell when they first failed
}

// mostReasons bounds a list.
const mostReasons = 20

func (p *Page) parked(w http.ResponseWriter, r *http.Request, v *visitor) {
	queue, ok := p.queue(w, r, v)
	if !ok {
		return
	}
	if p.busy(w, v, queue) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookFor)
	defer cancel()
	g := givenUp{Queue: queue}
	attempts, reasons := map[string]int{}, map[string]int{}
	var err error
	g.Sought, g.Total, err = p.seek(ctx, queue, filter{}, func(m *item, why func() (string, error)) error {
		reason, err := why()
		if m.Last != "" {
			reason += ": " + m.Last
		}
		reasons[reason]++
		attempts[cmp.Or(m.Attempts, "not known")]++
		if m.Attempts != "" && !m.Since.IsZero() {
			g.Since++
			if g.First.IsZero() || m.Since.Before(g.First) {
				g.First = m.Since
			}
			if m.Since.After(g.Last) {
				g.Last = m.Since
			}
		}
		return err
	})
	if err != nil {
		p.unread(w, v, queue, err)
		return
	}
	g.Attempts, _ = tallies(attempts, len(attempts))
	g.Why, g.More = tallies(reasons, mostReasons)
	p.show(w, http.StatusOK, "parked", frame{Title: "Given up", At: retriesPath, Visitor: v, Content: g})
}

// tallies are the most frequent first. more is how many there are beside.
func tallies(counts map[string]int, most int) (list []tally, more int) {
	for text, n := range counts {
		list = append(list, tally{Text: text, Count: n})
	}
	slices.SortFunc(list, func(a, b tally) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text)) })
	for i := range list {
		list[i].Share = max(4, list[i].Count*1000/list[0].Count)
	}
	more = max(0, len(list)-most)
	return list[:len(list)-more], more
}
