//go:build !race

package simulator

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/delayertest"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// A member is a Delayer: a process of the model's.
type member struct {
	*model
	p       *process
	closed  atomic.Bool
	calls   int           // that have not returned
	closing chan struct{} // closed when calls end that are not answered
	left    chan struct{} // closed when the process is gone
}

// open starts a process, and waits until it knows the time well.
func (m *model) open(ctx context.Context) (delayer.Delayer, error) {
	d := &member{model: m, closing: make(chan struct{}), left: make(chan struct{})}
	m.do(func() {
		d.p = newProcess(m.world, m.opened)
		d.p.ppm = 0
		m.opened++
	})
	return d, m.await(ctx, func() bool { return d.p.pub != nil && m.now > d.p.knownFrom+10*time.Second })
}

func (d *member) Limits() delayer.Limits { return d.limits }

// Close lets what is published be confirmed, gives back what is held, and ends the process.
func (d *member) Close() error {
	if d.closed.Swap(true) {
		<-d.left
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = d.await(ctx, func() bool { return d.calls == 0 })
	close(d.closing)
	d.do(func() {
		if t := d.p.tenure; t != nil && !t.over {
			t.stop("closing")
			d.p.soon(time.Second, t.close)
		}
	})
	_ = d.await(context.Background(), func() bool { return d.p.tenure == nil })
	d.do(func() {
		d.p.kill()
		d.processes = slices.DeleteFunc(d.processes, func(p *process) bool { return p == d.p })
	})
	close(d.left)
	return nil
}

// called counts a call until it returns.
func (d *member) called() (returned func()) {
	d.do(func() { d.calls++ })
	return func() { d.do(func() { d.calls-- }) }
}

func fail(op string, kind, cause error) error {
	return &delayer.Error{Op: op, Backend: "model", Kind: kind, Cause: cause}
}

// A call is a message that is being published.
type call struct {
	op     string
	r      *record
	ticket bool
	answer chan wheel.Outcome // buffered
	err    error              // it was refused
}

// sealed checks a message, and returns what its consumer gets. It shares no memory with it.
func (d *member) sealed(ctx context.Context, msg delayer.Message) (amqp091.Delivery, error) {
	checks := delayertest.New(delayertest.Config{Limits: d.limits})
	if d.closed.Load() {
		_ = checks.Close()
	}
	if err := checks.Publish(ctx, msg.Exchange, msg.Key, msg.Delay, msg.Publishing); err != nil {
		return amqp091.Delivery{}, err
	}
	return checks.Advance(stamp.Whole(msg.Delay))[0], nil
}

// begin publishes a message, and does not wait.
func (d *member) begin(ctx context.Context, op string, msg delayer.Message, ticket bool) *call {
	c := &call{op: op, ticket: ticket, answer: make(chan wheel.Outcome, 1)}
	payload, err := d.sealed(ctx, msg)
	if err != nil {
		c.err = err
		return c
	}
	d.do(func() {
		known := d.table.Exists(msg.Exchange, msg.Key)
		if msg.Delay == 0 {
			known = len(d.table.Reached(msg.Exchange, msg.Key, payload.Headers)) > 0
		}
		if !known {
			c.err = fail(op, delayer.ErrUnroutable, nil)
			return
		}
		c.r = &record{n: len(d.account.records), delay: stamp.Whole(msg.Delay), size: 200 + len(msg.Publishing.Body), payload: payload}
		c.r.to = d.number(msg)
		d.account.records = append(d.account.records, c.r)
		d.send(c)
	})
	return c
}

// number counts destinations. Those of an exchange are told apart by their keys.
func (m *model) number(msg delayer.Message) int {
	to := msg.Exchange + "\x00" + msg.Key
	if _, known := m.numbers[to]; !known {
		m.numbers[to] = len(m.numbers)
	}
	return m.numbers[to]
}

// send writes a message: one without a delay to where it is for.
func (d *member) send(c *call) {
	answered := func(o wheel.Outcome) { c.answer <- o }
	if c.r.delay > 0 {
		d.p.publish(c.r, c.ticket, answered)
		return
	}
	it := &item{of: c.r, msg: wheel.Message{ID: c.r.id(), Size: c.r.size, To: c.r.destination()}, choice: d.now}
	c.r.tickets = []pass{{due: brokertime.Due(d.clock.shown().UnixMilli())}}
	if d.p.pub == nil {
		c.answer <- notWritten
		return
	}
	d.p.write(d.p.pub, always, d.broker.deliver(it), answered)
}

// wait waits for the answer. A message that was not written is written again.
func (d *member) wait(ctx context.Context, c *call) error {
	for c.err == nil {
		o, err := notAnswered, error(nil)
		select {
		case o = <-c.answer:
		case <-ctx.Done():
			err = ctx.Err()
		case <-d.closing:
		}
		if o == notAnswered {
			select {
			case o = <-c.answer: // it was there before
			default:
			}
		}
		switch {
		case o == wheel.Accepted:
			return nil
		case o == wheel.Unknown, o == notAnswered:
			return fail(c.op, delayer.ErrUnknown, err)
		case o == wheel.Refused && c.r.delay == 0:
			return fail(c.op, delayer.ErrRefused, delayer.ErrUnknown)
		}
		if err := d.await(ctx, func() bool { return d.p.pub != nil }); err != nil {
			return fail(c.op, delayer.ErrNotSent, err)
		}
		d.do(func() { d.send(c) })
	}
	return c.err
}

// Outcomes beside those of the wheel.
const (
	notWritten  wheel.Outcome = -1 - iota // there was no connection
	notAnswered                           // nobody waits any more
)

func (d *member) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	return d.PublishBatch(ctx, []delayer.Message{{Exchange: exchange, Key: key, Delay: delay, Publishing: msg}})[0]
}

func (d *member) PublishBatch(ctx context.Context, messages []delayer.Message) (errs []error) {
	defer d.called()()
	var calls []*call
	for _, m := range messages {
		calls = append(calls, d.begin(ctx, "publish", m, false))
	}
	for _, c := range calls {
		errs = append(errs, d.wait(ctx, c))
	}
	return errs
}

func (d *member) Schedule(ctx context.Context, m delayer.Message) (delayer.Ticket, error) {
	defer d.called()()
	c := d.begin(ctx, "schedule", m, true)
	if err := d.wait(ctx, c); err != nil {
		return "", err
	}
	return d.newTicket(c.r), nil
}

func (d *member) Ticket(string, time.Time) (delayer.Ticket, error) { return "", errors.ErrUnsupported }

// newTicket returns one for the latest due time of a message.
func (d *member) newTicket(r *record) (text delayer.Ticket) {
	d.do(func() {
		text = delayer.Ticket(rand.Text())
		d.tickets[text] = ticket{r, r.tickets[len(r.tickets)-1]}
	})
	return text
}

// change calls for a change of what a ticket names.
func (d *member) change(ctx context.Context, op string, text delayer.Ticket, begin func(ticket, func(fate))) (*record, error) {
	defer d.called()()
	answer := make(chan fate, 1)
	var t ticket
	d.do(func() { t = d.tickets[text] })
	switch {
	case t.record == nil:
		return nil, fail(op, delayer.ErrTicket, nil)
	case d.closed.Load():
		return nil, fail(op, delayer.ErrClosed, nil)
	case ctx.Err() != nil:
		return nil, fail(op, delayer.ErrNotSent, ctx.Err())
	}
	d.do(func() { begin(t, func(f fate) { answer <- f }) })
	select {
	case f := <-answer:
		if kind := kinds[f]; kind != nil {
			return nil, fail(op, kind, nil)
		}
		return t.record, nil
	case <-ctx.Done():
		return nil, fail(op, delayer.ErrUnknown, ctx.Err())
	}
}

var kinds = map[fate]error{
	tooLate: delayer.ErrTooLate, notSent: delayer.ErrNotSent, unknown: delayer.ErrUnknown, earlier: delayer.ErrOutOfRange,
}

func (d *member) Cancel(ctx context.Context, text delayer.Ticket) error {
	_, err := d.change(ctx, "cancel", text, func(t ticket, then func(fate)) { d.p.cancel(t.record, t.pass, then) })
	return err
}

func (d *member) Postpone(ctx context.Context, text delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	if delay < 0 || delay > d.limits.Max {
		return "", fail("postpone", delayer.ErrOutOfRange, nil)
	}
	r, err := d.change(ctx, "postpone", text, func(t ticket, then func(fate)) {
		d.p.postpone(t.record, t.pass, stamp.Whole(delay), then)
	})
	if err != nil {
		return "", err
	}
	return d.newTicket(r), nil
}
