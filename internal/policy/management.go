package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/topology"
)

// A Management is the management API of a broker.
type Management struct {
	base     *url.URL // without credentials
	user     *url.Userinfo
	vhost    string
	client   http.Client
	policies map[string]Definition // of exchanges, by name; cached for one call of applied

	impatient bool // the last wait for the policies of all queues failed
}

// NewManagement parses the API's address, such as http://monitor:password@host:15672. It asks
// nothing yet. The error is ErrConfig and never contains the address.
func NewManagement(address, vhost string, transport http.RoundTripper) (*Management, error) {
	bad := func(reason string) error {
		return &delayer.Error{
			Op: "open", Object: "management", Kind: delayer.ErrConfig, Cause: errors.New(reason),
			Hint: "want http://user:password@host:15672, or https://; the user needs the tag monitoring, and permission for the vhost",
		}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, bad("malformed")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, bad("it is not an http address")
	case u.Host == "" || u.User == nil:
		return nil, bad("no host, or no user")
	}
	m := &Management{base: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}, user: u.User, vhost: vhost}
	m.client = http.Client{Timeout: 10 * time.Second, Transport: transport}
	return m, nil
}

// Check returns ErrConflict if policies harm a plan, and ErrUnavailable or ErrAccess if the API
// does not answer.
func (m *Management) Check(ctx context.Context, prefix string, p topology.Plan) error {
	found, err := m.Problems(ctx, prefix, p)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	const most = 3
	more := ""
	if len(found) > most {
		more = fmt.Sprintf("; and %d more, see delayer topology verify", len(found)-most)
	}
	return &delayer.Error{
		Op: "open", Object: "policies", Kind: delayer.ErrConflict,
		Cause: errors.New(strings.Join(found[:min(len(found), most)], "; ") + more), Hint: topology.PolicyRemedy(prefix),
	}
}

// Problems returns a sentence for each policy that harms a plan. Before RabbitMQ 4 the API knows
// the policy of a queue only a few seconds after it was declared. Problems waits for that, but only
// once at a broker that never knows it.
func (m *Management) Problems(ctx context.Context, prefix string, p topology.Plan) ([]string, error) {
	const patience, pause = 15 * time.Second, 500 * time.Millisecond
	for began := time.Now(); ; {
		a, known, err := m.applied(ctx, prefix, p)
		if err != nil {
			return nil, err
		}
		m.impatient = !known && (m.impatient || time.Since(began) > patience)
		if known || m.impatient {
			return Harm(p, a), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// item is a queue or an exchange as the API shows it.
type item struct {
	Name      string          `json:"name"`
	Policy    string          `json:"policy"`
	Effective json.RawMessage `json:"effective_policy_definition"`
}

// applied asks for the objects of a plan. known reports whether the policies of all its existing
// queues are known.
func (m *Management) applied(ctx context.Context, prefix string, p topology.Plan) (a Applied, known bool, err error) {
	known = true
	ours := map[string]bool{}
	for _, q := range p.Queues {
		ours[q.Name] = true
	}
	a = Applied{Queues: map[string]Definition{}, Exchanges: map[string]Definition{}}
	m.policies = map[string]Definition{}
	for _, begin := range beginnings(prefix, p) {
		for _, kind := range []string{"queues", "exchanges"} {
			items, err := m.list(ctx, kind, begin)
			if err != nil {
				return a, false, err
			}
			for _, it := range items {
				if kind == "queues" {
					a.Queues[it.Name] = definition(it.Effective)
					known = known && (it.Effective != nil || !ours[it.Name])
					continue
				}
				if a.Exchanges[it.Name], err = m.policy(ctx, it.Policy); err != nil {
					return a, false, err
				}
			}
		}
	}
	return a, known, nil
}

// beginnings returns the prefixes of all names in a plan: one, or two for fixedtiers.
func beginnings(prefix string, p topology.Plan) []string {
	out := []string{prefix}
	for _, q := range p.Queues {
		if first, _, _ := strings.Cut(q.Name, "."); !strings.HasPrefix(q.Name, prefix) && out[len(out)-1] != first {
			out = append(out, first)
		}
	}
	return out
}

// definition decodes a policy. The API sends [] if there is none.
func definition(raw json.RawMessage) Definition {
	var d Definition
	_ = json.Unmarshal(raw, &d) // a list means none
	return d
}

// policy returns the definition of a policy, for exchanges. Operator policies do not apply to
// those.
func (m *Management) policy(ctx context.Context, name string) (Definition, error) {
	if name == "" {
		return nil, nil
	}
	if d, ok := m.policies[name]; ok {
		return d, nil
	}
	var one struct {
		Definition Definition `json:"definition"`
	}
	err := m.get(ctx, "policies/"+url.PathEscape(m.vhost)+"/"+url.PathEscape(name), nil, &one)
	m.policies[name] = one.Definition
	return one.Definition, err
}

// list returns all objects whose names contain a text, page by page.
func (m *Management) list(ctx context.Context, kind, name string) ([]item, error) {
	var all []item
	for page := 1; ; page++ {
		var got struct {
			Items []item `json:"items"`
			Pages int    `json:"page_count"`
		}
		query := url.Values{
			"page": {fmt.Sprint(page)}, "page_size": {"500"}, "name": {name}, "use_regex": {"false"},
			"columns": {"name,policy,effective_policy_definition"},
		}
		if err := m.get(ctx, kind+"/"+url.PathEscape(m.vhost), query, &got); err != nil {
			return nil, err
		}
		if all = append(all, got.Items...); page >= got.Pages {
			return all, nil
		}
	}
}

func (m *Management) get(ctx context.Context, path string, query url.Values, into any) error {
	fail := func(kind, cause error, hint string) error {
		return &delayer.Error{Op: "look at policies", Object: m.base.String(), Kind: kind, Cause: cause, Hint: hint}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base.String()+"/api/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return fail(delayer.ErrConfig, errors.New("malformed"), "")
	}
	password, _ := m.user.Password()
	req.SetBasicAuth(m.user.Username(), password)
	res, err := m.client.Do(req)
	if err != nil {
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err // without the address
		}
		return fail(delayer.ErrUnavailable, err, "is the management plugin enabled, and is this its port?")
	}
	defer res.Body.Close() //nolint:errcheck // read only
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return fail(delayer.ErrAccess, errors.New(res.Status), "the user needs the tag monitoring, and permission for the vhost: rabbitmqctl set_user_tags, set_permissions")
	default:
		return fail(delayer.ErrUnavailable, errors.New(res.Status), "")
	}
	const limit = 64 << 20
	if err := json.NewDecoder(io.LimitReader(res.Body, limit)).Decode(into); err != nil {
		return fail(delayer.ErrUnavailable, err, "does RabbitMQ's management API answer there?")
	}
	return nil
}
