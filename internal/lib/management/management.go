// Package management asks the broker's management API.
package management

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
	"github.com/delayer-go/delayer/internal/lib/pace"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Client asks the management API of a broker.
type Client struct {
	base *url.URL // without credentials
	user *url.Userinfo
	http http.Client
}

// New parses the API's address, such as http://monitor:password@host:15672. It asks nothing yet.
// timeout bounds each question; 0 leaves that to its context. A nil transport is that of package
// http. The error is ErrConfig and never contains the address.
func New(address string, timeout time.Duration, transport http.RoundTripper) (*Client, error) {
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
	base := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}
	return &Client{base, u.User, http.Client{Timeout: timeout, Transport: transport}}, nil
}

// String is the address without credentials.
func (c *Client) String() string { return c.base.String() }

// User is the name of the user that asks.
func (c *Client) User() string { return c.user.Username() }

// Path joins the words of a path behind /api/. Each may contain any character.
func Path(words ...string) string {
	for i, word := range words {
		words[i] = url.PathEscape(word)
	}
	return strings.Join(words, "/")
}

// A Request is one question.
type Request struct {
	Op    string // the operation, for errors: "look at policies"
	Path  string // behind /api/, escaped as [Path] does it
	Query url.Values
}

// attempts are how often a question is asked that the broker answers with 5xx. RabbitMQ 3.10 answers
// 500 to GET /queues while somebody declares or deletes a stream: measured, 71 % of the answers
// beside four clients that did nothing else, and none on 4.0 and 4.3.
const attempts = 6

// ErrFailed is why ErrUnavailable is returned if the API answers, and cannot say what it is asked
// for: with management_agent.disable_metrics_collector it cannot list queues.
var ErrFailed = errors.New("the management API failed")

// Get decodes the answer into a value. Errors are ErrAccess, ErrNotFound for an answer of 404, and
// ErrUnavailable where no management API answers.
func (c *Client) Get(ctx context.Context, r Request, into any) error {
	fail := func(kind, cause error, hint string) error {
		return &delayer.Error{Op: r.Op, Object: c.String() + "/api/" + r.Path, Kind: kind, Cause: cause, Hint: hint}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.String()+"/api/"+r.Path+"?"+r.Query.Encode(), nil)
	if err != nil {
		return fail(delayer.ErrConfig, errors.New("malformed"), "")
	}
	password, _ := c.user.Password()
	req.SetBasicAuth(c.user.Username(), password)
	res, err := c.do(req)
	if err != nil {
		return fail(delayer.ErrUnavailable, err, "is the management plugin enabled, and is this its port?")
	}
	defer res.Body.Close() //nolint:errcheck // read only
	const limit = 256 << 20
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		var said struct{ Reason string }
		_ = json.NewDecoder(io.LimitReader(res.Body, limit)).Decode(&said) // without one the status says it
		return fail(delayer.ErrAccess, errors.New(strings.TrimSuffix(res.Status+": "+said.Reason, ": ")), remedy(said.Reason))
	case http.StatusNotFound:
		return fail(delayer.ErrNotFound, nil, "does the virtual host exist, and is this the management API of its broker?")
	default:
		return fail(delayer.ErrUnavailable, fmt.Errorf("%w: %s", ErrFailed, res.Status),
			"the broker's log says why; with management_agent.disable_metrics_collector RabbitMQ cannot show queues and exchanges")
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, limit)).Decode(into); err != nil {
		return fail(delayer.ErrUnavailable, err, "does RabbitMQ's management API answer there?")
	}
	return nil
}

// remedy is what to do about a reason for which RabbitMQ lets a user not in.
func remedy(reason string) string {
	switch {
	case strings.Contains(reason, "Login failed"):
		return "check the user name and the password"
	case strings.Contains(reason, "Not administrator"):
		return "the user needs the tag administrator for this: rabbitmqctl set_user_tags"
	}
	return "the user needs the tag monitoring, and permission for the vhost: rabbitmqctl set_user_tags, set_permissions"
}

// do asks again, for a second and a half, while the answer is 5xx. An error does not contain the
// address.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	for n := 1; ; n++ {
		res, err := c.http.Do(req)
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err
		}
		if err != nil || res.StatusCode < http.StatusInternalServerError || n == attempts {
			return res, err
		}
		_ = res.Body.Close()
		if err := pace.Sleep(req.Context(), pace.Doubled(50*time.Millisecond, time.Second, n)); err != nil {
			return nil, fmt.Errorf("%s: %w", res.Status, err)
		}
	}
}

// List returns all objects of a kind whose names contain a text, page by page.
func List[T any](ctx context.Context, c *Client, r Request, name string) ([]T, error) {
	var all []T
	for page := 1; ; page++ {
		var got struct {
			Items []T `json:"items"`
			Pages int `json:"page_count"`
		}
		query := url.Values{
			"page": {fmt.Sprint(page)}, "page_size": {"500"}, "name": {name}, "use_regex": {"false"},
		}
		maps.Copy(query, r.Query)
		if err := c.Get(ctx, Request{r.Op, r.Path, query}, &got); err != nil {
			return nil, err
		}
		if all = append(all, got.Items...); page >= got.Pages {
			return all, nil
		}
	}
}

// Arguments are those of an object. Integers keep all their digits.
type Arguments amqp091.Table

// UnmarshalJSON reads them. The API sends [] where there are none.
func (a *Arguments) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		*a = Arguments{}
		return nil
	}
	table, err := messagejson.Table(text)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	*a = Arguments(table)
	return nil
}

// Table is never nil.
func (a Arguments) Table() amqp091.Table {
	if a == nil {
		return amqp091.Table{}
	}
	return amqp091.Table(a)
}
