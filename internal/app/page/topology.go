package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

const topologyPath = "/page/topology"

const (
	lookEvery  = 10 * time.Second // at the topology, however many look
	lookWithin = time.Minute
	mostWrong  = 200 // differences that are shown
)

// A Topology compares what the broker holds with what a configuration declares.
type Topology struct {
	prefix, backend string
	plan            topology.Plan // with all bindings that a Delayer may ever make
	verified        *question[[]backend.Problem]
	note            string // why nothing is compared; "" if it is
}

// NewTopology compares with a configuration, until Close.
func NewTopology(cfg backend.Config) (*Topology, error) {
	whole := cfg
	whole.Declare = delayer.Off // lists all bindings
	plan, err := backend.Topology(whole)
	if err != nil {
		return nil, err
	}
	t := newTopology(cmp.Or(cfg.Backend, backend.Default().Backend), cmp.Or(cfg.Prefix, backend.Default().Prefix), plan,
		func(ctx context.Context, _ []backend.Problem) ([]backend.Problem, error) {
			return backend.Verify(ctx, cfg)
		}, time.Now)
	switch {
	case len(plan.Exchanges) == 0:
		t.note = "The exchange is yours: this configuration declares nothing."
	case cfg.Management == "":
		t.note = "Arguments, bindings and policies cannot be seen over AMQP: give management in the configuration."
	}
	return t, nil
}

func newTopology(name, prefix string, plan topology.Plan, ask func(context.Context, []backend.Problem) ([]backend.Problem, error), now func() time.Time) *Topology {
	return &Topology{prefix: prefix, backend: name, plan: plan, verified: newQuestion(lookEvery, lookWithin, now, ask)}
}

// Close ends what is under way.
func (t *Topology) Close() { t.verified.Close() }

// topologyView is the page.
type topologyView struct {
	reading[[]backend.Problem]
	Prefix, Backend string
	Note            string
	Markers         []topology.Marker
	Different       []backend.Problem
	Policies        []backend.Problem
	More            int // differences and policies that are not shown
	Remedy          string
	Drawing         drawing
}

func (p *Page) topology(w http.ResponseWriter, r *http.Request, v *visitor) {
	t := p.Topology
	view := topologyView{Prefix: t.prefix, Backend: t.backend, Note: t.note, Markers: t.plan.Markers}
	if t.note == "" {
		view.reading = t.verified.look(r.Context())
		view.Different, view.Policies, view.More = split(view.Value, mostWrong)
		view.Remedy = objects.PolicyRemedy(t.prefix)
	}
	view.Drawing = draw(t.plan, t.prefix, marks(view.Value))
	p.show(w, http.StatusOK, "topology", frame{Title: "Topology and policies", At: topologyPath, Visitor: v, Again: view.Coming, Content: view})
}

// split tells policies from other differences. more is how many there are beside the most of each.
func split(all []backend.Problem, most int) (different, policies []backend.Problem, more int) {
	for _, one := range all {
		if one.Kind == string(objects.IsHarmed) {
			policies = append(policies, one)
		} else {
			different = append(different, one)
		}
	}
	more = max(0, len(different)-most) + max(0, len(policies)-most)
	return different[:min(most, len(different))], policies[:min(most, len(policies))], more
}

// marks say what is wrong with an object, by its kind and its name.
func marks(all []backend.Problem) map[[2]string]string {
	said := map[string]string{
		string(objects.IsMissing): "missing", string(objects.IsOther): "otherwise than planned", string(objects.IsHarmed): "harmed by a policy",
	}
	found := map[[2]string]string{}
	for _, one := range all {
		for _, kind := range []string{"exchange", "queue"} {
			var name string
			if text, is := strings.CutPrefix(one.Object, kind+" "); is && said[one.Kind] != "" {
				if n, _ := fmt.Sscanf(text, "%q", &name); n == 1 {
					found[[2]string{kind, name}] = cmp.Or(found[[2]string{kind, name}], said[one.Kind])
				}
			}
		}
	}
	return found
}

// Commands are those that are worth a try.
func (v topologyView) Commands() (list []string) {
	missing := func(one backend.Problem) bool { return one.Kind == string(objects.IsMissing) }
	if slices.ContainsFunc(v.Different, missing) {
		list = append(list, "delayer topology apply --config delayer.yaml")
	}
	return append(list, "delayer topology verify --config delayer.yaml")
}

// What names a kind of difference.
func what(kind string) string {
	switch kind {
	case string(objects.IsMissing):
		return "missing"
	case string(objects.IsOther):
		return "differs"
	case string(objects.IsSurplus):
		return "made by others"
	}
	return cli.Shown(kind)
}
