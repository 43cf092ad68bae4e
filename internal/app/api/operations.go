package api

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/tokens"
	"github.com/delayer-go/delayer/internal/lib/message"
)

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
		Messages []Message `json:"messages" nullable:"false" minItems:"1" maxItems:"1000"`
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
	return &AcceptedAnswer{Accepted{ID: m.Publishing.MessageId, Due: due(now, &m), Ticket: string(ticket)}}, nil
}

// unsent is what clients are told of a message that was not confirmed.
func (a *API) unsent(err error, m *delayer.Message, ticket delayer.Ticket) *Problem {
	problem := a.problem(err)
	if !problem.SafeToRetry {
		problem.ID, problem.Ticket = m.Publishing.MessageId, string(ticket)
	}
	if m.ID != "" && time.Until(m.Due) > 0 { // both are one message
		problem.SafeToRetry = true
	}
	return problem
}

// send asks for a ticket where one would be of use.
func (a *API) send(ctx context.Context, m *delayer.Message) (delayer.Ticket, error) {
	if cancellable(a.Delayer.Limits(), m) {
		return a.Delayer.Schedule(ctx, *m)
	}
	return "", a.Delayer.Publish(ctx, m.Exchange, m.Key, m.Delay, m.Publishing)
}

// cancellable reports whether there is time to cancel a message, or its id asks for a ticket.
func cancellable(l delayer.Limits, m *delayer.Message) bool {
	return m.ID != "" || l.CancelBefore > 0 && m.Delay > l.CancelBefore
}

// sendAll does what send does for each message, and returns a ticket and an error for each.
// Messages with a ticket keep their order among themselves, and so do the others.
func (a *API) sendAll(ctx context.Context, messages []delayer.Message) ([]delayer.Ticket, []error) {
	limits, tickets, errs := a.Delayer.Limits(), make([]delayer.Ticket, len(messages)), make([]error, len(messages))
	var scheduled, others []delayer.Message
	var scheduledAt, othersAt []int
	for i := range messages {
		if m := &messages[i]; cancellable(limits, m) {
			scheduled, scheduledAt = append(scheduled, *m), append(scheduledAt, i)
		} else {
			others, othersAt = append(others, *m), append(othersAt, i)
		}
	}
	var scheduling sync.WaitGroup
	scheduling.Go(func() {
		given, failed := a.scheduleAll(ctx, scheduled)
		for i, at := range scheduledAt {
			tickets[at], errs[at] = given[i], failed[i]
		}
	})
	for i, err := range a.Delayer.PublishBatch(ctx, others) {
		errs[othersAt[i]] = err
	}
	scheduling.Wait()
	return tickets, errs
}

// scheduleAll schedules messages in their order: together if the Delayer can, and otherwise one
// after the other.
func (a *API) scheduleAll(ctx context.Context, messages []delayer.Message) ([]delayer.Ticket, []error) {
	if d, can := a.Delayer.(interface { // slots.Delayer
		ScheduleBatch(context.Context, []delayer.Message) ([]delayer.Ticket, []error)
	}); can {
		return d.ScheduleBatch(ctx, messages)
	}
	tickets, errs := make([]delayer.Ticket, len(messages)), make([]error, len(messages))
	for i, m := range messages {
		tickets[i], errs[i] = a.Delayer.Schedule(ctx, m)
	}
	return tickets, errs
}

func due(now time.Time, m *delayer.Message) time.Time {
	if !m.Due.IsZero() {
		return m.Due.UTC()
	}
	return now.Add(m.Delay).UTC().Truncate(time.Millisecond)
}

func (a *API) message(ctx context.Context, asked *Message, key string, trace *Tracing, now time.Time) (delayer.Message, *Problem) {
	m, err := asked.message(key, now)
	if err != nil {
		return m, invalid.problemf("%v", err)
	}
	if problem := a.permit(ctx.Value(bearerKey{}).(*tokens.Token), &m); problem != nil {
		return m, problem
	}
	trace.into(&m.Publishing)
	return m, nil
}

// permit refuses what a token is not for, and for everybody what belongs to the Delayer. At the
// default exchange CC and BCC name queues too.
func (a *API) permit(t *tokens.Token, m *delayer.Message) *Problem {
	if m.Exchange == "" && m.Key == "" {
		return invalid.problemf("give exchange, or key with the name of a queue")
	}
	allowed, what, names := t.Exchange, "exchange", []string{m.Exchange}
	if m.Exchange == "" {
		allowed, what, names = t.Queue, "queue", append(message.Copies(m.Publishing.Headers), m.Key)
	}
	for _, name := range names {
		if entry.Owns(a.Prefix, name) {
			return forbidden.problemf("nothing may be published to %s %.255q, which is delayer's own", what, name)
		}
		if !allowed(name) {
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

// publishBatch publishes those messages that can be, and answers for each.
func (a *API) publishBatch(ctx context.Context, in *PostedBatch) (*BatchAnswer, error) {
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
		t := due(now, m)
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

func (a *API) cancel(ctx context.Context, in *Named) (*struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	if err := a.Delayer.Cancel(ctx, delayer.Ticket(in.Ticket)); err != nil {
		return nil, a.problem(err).again()
	}
	return nil, nil //nolint:nilnil // there is nothing to say
}

// Identified names a message by what it was, or will be, published with.
type Identified struct {
	ID  string    `query:"id" required:"true" maxLength:"40" doc:"As in the message"`
	Due time.Time `query:"due" required:"true" example:"2027-01-31T18:00:00Z" doc:"As in the message"`
}

// TicketAnswer answers Identified.
type TicketAnswer struct {
	Body struct {
		Ticket string `json:"ticket" doc:"It is the same whether there is such a message or not"`
	}
}

func (a *API) ticket(_ context.Context, in *Identified) (*TicketAnswer, error) {
	ticket, err := a.Delayer.Ticket(in.ID, in.Due)
	if err != nil {
		return nil, a.problem(err).again()
	}
	answer := &TicketAnswer{}
	answer.Body.Ticket = string(ticket)
	return answer, nil
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
	answer.Body.Due, answer.Body.Ticket = due(now, &delayer.Message{Delay: delay}), string(ticket)
	return answer, nil
}

// Limits are those of the backend and of the API.
type Limits struct {
	Max           int64   `json:"max_ms" doc:"The longest delay, in milliseconds"`
	Resolution    int64   `json:"resolution_ms" doc:"The step between two delays. One in between is rounded up"`
	Tiers         []int64 `json:"tiers_ms,omitempty" nullable:"false" doc:"The only delays, where the backend has such"`
	ExactTiers    bool    `json:"exact_tiers" doc:"A delay that is none of tiers_ms is refused, not rounded up"`
	CancelBefore  int64   `json:"cancel_before_ms" doc:"How long before it is due a message can be cancelled or postponed. 0: none can"`
	MaxPriority   uint8   `json:"max_priority"`
	Ordered       bool    `json:"ordered" doc:"Messages with the same delay arrive in the order in which one client published them, one after the other"`
	Replicated    bool    `json:"replicated" doc:"The loss of a minority of the broker's nodes loses no message"`
	SurvivesCrash bool    `json:"survives_crash"`
	MaxBody       int     `json:"max_body_bytes" doc:"The largest request"`
	MaxBatch      int     `json:"max_batch" doc:"The most messages of a batch"`
}

// LimitsAnswer answers with the limits.
type LimitsAnswer struct{ Body Limits }

func (a *API) limits(context.Context, *struct{}) (*LimitsAnswer, error) {
	l := a.Delayer.Limits()
	answer := Limits{
		Max: l.Max.Milliseconds(), Resolution: ceil(l.Resolution), ExactTiers: l.ExactTiers, CancelBefore: ceil(l.CancelBefore),
		MaxPriority: l.MaxPriority, Ordered: l.Ordered, Replicated: l.Replicated, SurvivesCrash: l.SurvivesCrash,
		MaxBody: a.cfg.MaxBody, MaxBatch: mostMessages,
	}
	for _, tier := range l.Tiers {
		answer.Tiers = append(answer.Tiers, tier.Milliseconds())
	}
	return &LimitsAnswer{answer}, nil
}

// ceil is a duration in milliseconds, rounded up.
func ceil(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }
