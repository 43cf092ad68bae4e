// Package api publishes by HTTP, through a Delayer. The types of its requests and answers are also
// what its description, as of OpenAPI 3.1, is made of.
//
// A request is let in by [API.ServeHTTP], which knows tokens and limits but nothing of messages,
// and then done by an operation, which knows messages and nothing of HTTP.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/tokens"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// Parts are what an API is made of, beside its configuration.
type Parts struct {
	Delayer delayer.Delayer      // the caller closes it
	Prefix  string               // of the Delayer
	Health  func(*http.ServeMux) // adds what is asked without a token: whether the process works
	// Answered is called for each request that was answered. A route is a method and a path, or
	// "other".
	Answered func(route string, status int, took time.Duration)
	Log      *slog.Logger
	// Page is a page for browsers, which knows by itself who may see it; nil: there is none.
	Page http.Handler
}

// An API is the HTTP API, as a handler.
type API struct {
	Parts
	cfg        Config
	files      Files
	mux        *http.ServeMux
	slots      chan struct{} // of the requests under way
	bodyWithin time.Duration // how long the body of a request may take to come
	foreign    *http.CrossOriginProtection
}

// New makes the API of a configuration that was checked, with its files.
func New(cfg Config, files Files, p Parts) *API {
	a := &API{
		Parts: p, cfg: cfg, files: files, mux: http.NewServeMux(), slots: make(chan struct{}, cfg.MaxRequests),
		bodyWithin: usualBodyWithin, foreign: http.NewCrossOriginProtection(),
	}
	p.Health(a.mux)
	if p.Page != nil {
		a.mux.HandleFunc("GET /{$}", a.page)
		a.mux.HandleFunc("/page/", a.page)
	}
	a.register(humago.New(a.mux, description()))
	return a
}

// page answers a browser. Without tokens only this machine may ask: see here.
func (a *API) page(w http.ResponseWriter, r *http.Request) {
	if a.files.tokens == nil && !here(r.Host) {
		write(w, forbidden.problemf("another name of this machine: without tokens only requests to localhost are answered"))
		return
	}
	a.Page.ServeHTTP(w, r)
}

// description is what huma makes of the API. There is no page that shows it: that would load
// scripts from elsewhere.
func description() huma.Config {
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Delayer", Version: "1",
				Description: "Publishes messages to RabbitMQ that arrive later.",
			},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}},
			},
			Security: []map[string][]string{{"token": {}}},
		},
		OpenAPIPath: "/openapi", DefaultFormat: jsonType,
		Formats:      map[string]huma.Format{jsonType: format(), "json": format()}, // the second is for problem+json
		Transformers: []huma.Transformer{ofHuma},
	}
	return cfg
}

// Tracing is the context of a trace, which goes into the headers of messages.
type Tracing struct {
	Traceparent string `header:"traceparent" doc:"W3C trace context. It arrives in the headers of the message"`
	Tracestate  string `header:"tracestate"`
	Baggage     string `header:"baggage"`
}

// Posted is the request of one message.
type Posted struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"The message id. Consumers can tell by it that a message came twice; the broker keeps both"`
	Tracing
	Body Message
}

// PostedBatch is the request of several messages.
type PostedBatch struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"The message ids: this text with a full stop and the index of the message, from 0"`
	Tracing
	Body struct {
		Messages Messages `json:"messages" nullable:"false" maxItems:"1000"`
	}
}

// An Accepted message is in the broker.
type Accepted struct {
	ID     string    `json:"id" doc:"The message id"`
	Due    time.Time `json:"due" doc:"When it is due, by the clock of this server"`
	Ticket string    `json:"ticket,omitempty" doc:"To cancel or postpone it, where the backend can and there is time left to do so"`
}

// AcceptedAnswer answers Posted.
type AcceptedAnswer struct{ Body Accepted }

// A Result is that of one message of a batch.
type Result struct {
	Status  int        `json:"status" doc:"201, or the status of the problem"`
	ID      string     `json:"id,omitempty"`
	Due     *time.Time `json:"due,omitempty"`
	Ticket  string     `json:"ticket,omitempty"`
	Problem *Problem   `json:"problem,omitempty"`
}

// BatchAnswer answers PostedBatch.
type BatchAnswer struct {
	Status     int
	RetryAfter string `header:"Retry-After"`
	Body       struct {
		Results []Result `json:"results" nullable:"false" doc:"One for each message, in their order"`
	}
}

// publish publishes a message.
func (a *API) publish(ctx context.Context, in *Posted) (*AcceptedAnswer, error) {
	now := time.Now()
	m, problem := a.message(ctx, &in.Body, in.IdempotencyKey, &in.Tracing, now)
	if problem != nil {
		return nil, problem
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	ticket, err := a.send(ctx, &m)
	if err != nil {
		return nil, a.unsent(err, &m, ticket)
	}
	return &AcceptedAnswer{Accepted{ID: m.Publishing.MessageId, Due: due(now, m.Delay), Ticket: string(ticket)}}, nil
}

// unsent is what clients are told of a message that was not confirmed.
func (a *API) unsent(err error, m *delayer.Message, ticket delayer.Ticket) *Problem {
	problem := a.problem(err)
	if !problem.SafeToRetry {
		problem.ID, problem.Ticket = m.Publishing.MessageId, string(ticket)
	}
	return problem
}

// problem is what clients are told of an error of the Delayer.
func (a *API) problem(err error) *Problem {
	p := problemOf(err)
	if p.Kind == internal.name {
		a.Log.Error("a request failed", "error", err)
	}
	return p
}

// send asks for a ticket where one would be of use.
func (a *API) send(ctx context.Context, m *delayer.Message) (delayer.Ticket, error) {
	if cancellable(a.Delayer.Limits(), m) {
		return a.Delayer.Schedule(ctx, m.Exchange, m.Key, m.Delay, m.Publishing)
	}
	return "", a.Delayer.Publish(ctx, m.Exchange, m.Key, m.Delay, m.Publishing)
}

// cancellable reports whether there is time to cancel a message.
func cancellable(l delayer.Limits, m *delayer.Message) bool {
	return l.CancelBefore > 0 && m.Delay > l.CancelBefore
}

// scheduledAtOnce is how many messages of a batch are on their way with a ticket: each waits for
// its confirm.
const scheduledAtOnce = 32

// sendAll does what send does for each message, and returns a ticket and an error for each. Where
// messages with the same delay keep their order, each waits for the confirm of the one before it.
func (a *API) sendAll(ctx context.Context, messages []delayer.Message) ([]delayer.Ticket, []error) {
	limits, tickets, errs := a.Delayer.Limits(), make([]delayer.Ticket, len(messages)), make([]error, len(messages))
	atOnce := scheduledAtOnce
	if limits.Ordered {
		atOnce = 1
	}
	room := make(chan struct{}, atOnce)
	var others []delayer.Message
	var at []int
	var scheduling sync.WaitGroup
	for i := range messages {
		m := &messages[i]
		if !cancellable(limits, m) {
			others, at = append(others, *m), append(at, i)
			continue
		}
		room <- struct{}{}
		scheduling.Go(func() {
			tickets[i], errs[i] = a.Delayer.Schedule(ctx, m.Exchange, m.Key, m.Delay, m.Publishing)
			<-room
		})
	}
	for i, err := range a.Delayer.PublishBatch(ctx, others) {
		errs[at[i]] = err
	}
	scheduling.Wait()
	return tickets, errs
}

func due(now time.Time, delay time.Duration) time.Time {
	return now.Add(delay).UTC().Truncate(time.Millisecond)
}

// message is what a request asks to publish, if its bearer may.
func (a *API) message(ctx context.Context, asked *Message, key string, trace *Tracing, now time.Time) (delayer.Message, *Problem) {
	m, err := asked.message(key, now)
	if err != nil {
		return m, invalid.problemf("%v", err)
	}
	if problem := a.permit(bearer(ctx), &m); problem != nil {
		return m, problem
	}
	trace.into(&m.Publishing)
	return m, nil
}

// permit refuses what a token is not for, and for everybody what belongs to the Delayer. At the
// default exchange CC and BCC name queues too.
func (a *API) permit(t *tokens.Token, m *delayer.Message) *Problem {
	allowed, what, names := t.Exchange, "exchange", []string{m.Exchange}
	if m.Exchange == "" {
		allowed, what, names = t.Queue, "queue", append(message.Copies(m.Publishing.Headers), m.Key)
	}
	for _, name := range names {
		if !allowed(name) || entry.Owns(a.Prefix, name) {
			return forbidden.problemf("nothing may be published to %s %.255q with this token", what, name)
		}
	}
	return nil
}

// into puts the context of a trace into the headers of a message, unless they have one.
func (t *Tracing) into(msg *amqp091.Publishing) {
	for name, value := range map[string]string{"traceparent": t.Traceparent, "tracestate": t.Tracestate, "baggage": t.Baggage} {
		if _, has := msg.Headers[name]; has || value == "" {
			continue
		}
		if msg.Headers == nil {
			msg.Headers = amqp091.Table{}
		}
		msg.Headers[name] = value
	}
}
