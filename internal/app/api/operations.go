package api

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/tokens"
)

// rightOf is the right that each route needs. Others need a token only.
var rightOf = map[string]tokens.Right{
	"POST /v1/messages":            tokens.Publish,
	"POST /v1/messages/batch":      tokens.Publish,
	"DELETE /v1/messages/{ticket}": tokens.Cancel,
	"PATCH /v1/messages/{ticket}":  tokens.Cancel,
}

func (a *API) register(h huma.API) {
	registry := h.OpenAPI().Components.Schemas
	operation := func(id, method, path, summary string, status int, problems ...int) huma.Operation {
		op := huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, DefaultStatus: status,
			// The requests are decoded strictly, and read in full before they come here: see
			// ServeHTTP.
			SkipValidateBody: true, MaxBodyBytes: -1, BodyReadTimeout: -1,
			Responses: map[string]*huma.Response{},
		}
		for _, status := range append(problems, http.StatusUnauthorized, http.StatusServiceUnavailable) {
			op.Responses[strconv.Itoa(status)] = &huma.Response{
				Description: http.StatusText(status),
				Content:     map[string]*huma.MediaType{problemType: {Schema: registry.Schema(reflect.TypeFor[Problem](), true, "")}},
			}
		}
		return op
	}
	const (
		messages = "/v1/messages"
		ticket   = messages + "/{ticket}"
	)
	posting := []int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusGatewayTimeout,
	}
	changing := []int{
		http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity,
		http.StatusNotImplemented, http.StatusGatewayTimeout,
	}
	huma.Register(h, operation("publish", http.MethodPost, messages, "Publish a message", http.StatusCreated, posting...), a.publish)
	huma.Register(h, operation("publishBatch", http.MethodPost, messages+"/batch", "Publish up to 1000 messages", http.StatusCreated, posting...), a.publishBatch)
	huma.Register(h, operation("cancel", http.MethodDelete, ticket, "Cancel a message", http.StatusNoContent, changing...), a.cancel)
	huma.Register(h, operation("postpone", http.MethodPatch, ticket, "Make a message due later", http.StatusOK, append(changing, posting...)...), a.postpone)
	huma.Register(h, operation("limits", http.MethodGet, "/v1/limits", "What can be delayed, and for how long", http.StatusOK), a.limits)
	delete(registry.Map(), reflect.TypeFor[huma.ErrorModel]().Name()) // nobody is sent one
	delete(registry.Map(), reflect.TypeFor[huma.ErrorDetail]().Name())
}

// publishBatch publishes those messages that can be, and answers for each.
func (a *API) publishBatch(ctx context.Context, in *PostedBatch) (*BatchAnswer, error) {
	if len(in.Body.Messages) == 0 {
		return nil, invalid.problemf("messages is empty")
	}
	now := time.Now()
	results := make([]Result, len(in.Body.Messages))
	sent, at := make([]delayer.Message, 0, len(results)), make([]int, 0, len(results))
	for i := range results {
		key := in.IdempotencyKey
		if key != "" {
			key += "." + strconv.Itoa(i)
		}
		m, problem := a.message(ctx, &in.Body.Messages[i], key, &in.Tracing, now)
		if problem != nil {
			results[i].fail(problem)
			continue
		}
		sent, at = append(sent, m), append(at, i)
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	tickets, errs := a.sendAll(ctx, sent)
	for i, err := range errs {
		m, r := &sent[i], &results[at[i]]
		if err != nil {
			r.fail(a.unsent(err, m, tickets[i]))
			continue
		}
		t := due(now, m.Delay)
		*r = Result{Status: http.StatusCreated, ID: m.Publishing.MessageId, Due: &t, Ticket: string(tickets[i])}
	}
	return answerTo(results), nil
}

func (r *Result) fail(p *Problem) { r.Status, r.Problem = p.Status, p }

// answerTo has the status of the messages, if it is the same for all.
func answerTo(results []Result) *BatchAnswer {
	answer := &BatchAnswer{Status: http.StatusCreated}
	answer.Body.Results = results
	for i, r := range results {
		if i == 0 {
			answer.Status = r.Status
		}
		if r.Status != answer.Status {
			answer.Status = http.StatusMultiStatus
		}
		if r.Problem != nil && r.Problem.headers.Get(retryAfter) != "" {
			answer.RetryAfter = r.Problem.headers.Get(retryAfter)
		}
	}
	return answer
}

// Named is a request about a message that waits.
type Named struct {
	Ticket string `path:"ticket" doc:"As it was answered when the message was published or postponed"`
}

// cancel drops a message.
func (a *API) cancel(ctx context.Context, in *Named) (*struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	if err := a.Delayer.Cancel(ctx, delayer.Ticket(in.Ticket)); err != nil {
		return nil, a.problem(err).again()
	}
	return nil, nil //nolint:nilnil // there is nothing to say
}

// Postponing is the request to make a message due later.
type Postponing struct {
	Named
	Body Time
}

// Postponed answers Postponing.
type Postponed struct {
	Body struct {
		Due    time.Time `json:"due" doc:"When it is due now, by the clock of this server"`
		Ticket string    `json:"ticket" doc:"The ticket to use from now on"`
	}
}

// postpone makes a message later.
func (a *API) postpone(ctx context.Context, in *Postponing) (*Postponed, error) {
	now := time.Now()
	if in.Body.Delay == nil && in.Body.Due == nil {
		return nil, invalid.problemf("write delay or due")
	}
	delay, err := in.Body.left(now)
	if err != nil {
		return nil, invalid.problemf("%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	ticket, err := a.Delayer.Postpone(ctx, delayer.Ticket(in.Ticket), delay)
	if err != nil {
		return nil, a.problem(err).again()
	}
	answer := &Postponed{}
	answer.Body.Due, answer.Body.Ticket = due(now, delay), string(ticket)
	return answer, nil
}

// Limits are those of the backend and of the API.
type Limits struct {
	Max               int64   `json:"max_ms" doc:"The longest delay, in milliseconds"`
	Resolution        int64   `json:"resolution_ms" doc:"The step between two delays. One in between is rounded up"`
	Tiers             []int64 `json:"tiers_ms,omitempty" nullable:"false" doc:"The only delays, where the backend has such"`
	ExactTiers        bool    `json:"exact_tiers" doc:"A delay that is none of tiers_ms is refused, not rounded up"`
	CancelBefore      int64   `json:"cancel_before_ms" doc:"How long before it is due a message can be cancelled or postponed. 0: none can"`
	MaxPriority       uint8   `json:"max_priority"`
	Ordered           bool    `json:"ordered" doc:"Messages with the same delay arrive in the order in which one client published them, one after the other"`
	Replicated        bool    `json:"replicated" doc:"The loss of a minority of the broker's nodes loses no message"`
	SurvivesCrash     bool    `json:"survives_crash"`
	ReportsUnroutable bool    `json:"reports_unroutable" doc:"A delayed message to an exchange or queue that does not exist is refused"`
	MaxBody           int     `json:"max_body_bytes" doc:"The largest request"`
	MaxBatch          int     `json:"max_batch" doc:"The most messages of a batch"`
}

// LimitsAnswer answers with the limits.
type LimitsAnswer struct{ Body Limits }

func (a *API) limits(context.Context, *struct{}) (*LimitsAnswer, error) {
	l := a.Delayer.Limits()
	answer := Limits{
		Max: l.Max.Milliseconds(), Resolution: ceil(l.Resolution), ExactTiers: l.ExactTiers, CancelBefore: ceil(l.CancelBefore),
		MaxPriority: l.MaxPriority, Ordered: l.Ordered, Replicated: l.Replicated, SurvivesCrash: l.SurvivesCrash,
		ReportsUnroutable: l.ReportsUnroutable, MaxBody: a.cfg.MaxBody, MaxBatch: mostMessages,
	}
	for _, tier := range l.Tiers {
		answer.Tiers = append(answer.Tiers, tier.Milliseconds())
	}
	return &LimitsAnswer{answer}, nil
}

// ceil is a duration in milliseconds, rounded up.
func ceil(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }
