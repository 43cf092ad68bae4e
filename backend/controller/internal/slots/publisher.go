package slots

import (
	"context"
	"strconv"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/writer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// A wire publishes with confirms: [broker.Publisher].
type wire interface {
	Covers(size int) bool
	Publish(ctx context.Context, msg broker.Publishing) error
}

// A publisher writes records to the log: it runs a [writer.Writer]. It is safe for concurrent use.
type publisher struct {
	broker   wire
	exchange string // of the log

	ctx     context.Context // ends with it
	end     context.CancelFunc
	sending sync.WaitGroup

	mu     sync.Mutex
	writer *writer.Writer
	timer  *time.Timer
	closed bool
	unsent sync.WaitGroup // records that are not settled
	moved  chan struct{}  // closed when records have been settled, and then another
}

func newPublisher(b wire, exchange, process string) *publisher {
	p := &publisher{broker: b, exchange: exchange, writer: writer.New(process), moved: make(chan struct{})}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.timer = time.AfterFunc(time.Hour, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reserve()
	})
	return p
}

// An entry is a record that was submitted. It implements [engine.Pending].
type entry struct {
	writer.Record
	publisher *publisher
	ctx       context.Context // of Submit
	alone     bool            // on a channel of its own: the broker may not take it
	settled   chan error      // buffered
}

// submit hands a record over. It waits while too much waits.
func (p *publisher) submit(ctx context.Context, rec bundle.Record) (*entry, error) {
	e := &entry{publisher: p, ctx: ctx, settled: make(chan error, 1)}
	e.alone = !p.broker.Covers(len(rec.Payload)) && len(rec.Payload) > bundle.LoneSize
	e.Record = writer.Record{Record: rec, Of: e}
	for {
		p.mu.Lock()
		closed, full, moved := p.closed, p.writer.Full(), p.moved
		if !closed && !full {
			p.unsent.Add(1)
			p.writer.Submit(settle.Reading(time.Now()), &e.Record)
			p.reserve()
			p.mu.Unlock()
			return e, nil
		}
		p.mu.Unlock()
		if closed {
			return nil, p.fail(delayer.ErrClosed, nil, "")
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, p.fail(delayer.ErrNotSent, context.Cause(ctx), "the broker has not confirmed the messages before it")
		}
	}
}

func (p *publisher) publish(ctx context.Context, rec bundle.Record) error {
	e, err := p.submit(ctx, rec)
	if err != nil {
		return err
	}
	return e.Wait(ctx)
}

// Wait implements [engine.Pending].
func (e *entry) Wait(ctx context.Context) error {
	p := e.publisher
	select {
	case err := <-e.settled:
		return err
	case <-ctx.Done():
	}
	p.mu.Lock()
	if p.writer.Withdraw(&e.Record) {
		p.settle([]*writer.Record{&e.Record}, p.fail(delayer.ErrNotSent, context.Cause(ctx), ""))
	}
	alone := e.alone
	p.mu.Unlock()
	if !alone && len(e.settled) == 0 {
		return p.fail(delayer.ErrUnknown, context.Cause(ctx), "ctx ended before the broker's confirm")
	}
	return <-e.settled // ctx ends the publishing of one that is alone too
}

func (p *publisher) fail(kind, cause error, hint string) error {
	return &delayer.Error{Op: "publish", Backend: backend, Kind: kind, Cause: cause, Hint: hint}
}

// settle tells what became of records. The caller holds mu.
func (p *publisher) settle(records []*writer.Record, err error) {
	for _, r := range records {
		r.Of.(*entry).settled <- err
		p.unsent.Done()
	}
	close(p.moved)
	p.moved = make(chan struct{})
}

// reserve sends the next bundle if one is wanted. The caller holds mu.
func (p *publisher) reserve() {
	if p.ctx.Err() != nil {
		return
	}
	now := settle.Reading(time.Now())
	id, next := p.writer.Reserve(now)
	if id > 0 {
		p.sending.Go(func() { p.send(id) })
	}
	if next > 0 {
		p.timer.Reset(next - now)
	}
}

// next is the entry with which the next bundle begins, nil if there is none. The caller holds mu.
func (p *publisher) next() *entry {
	r := p.writer.Next()
	if r == nil {
		return nil
	}
	return r.Of.(*entry)
}

// send publishes a bundle. Nothing that is sent later overtakes it: no other is reserved until it is
// taken.
func (p *publisher) send(id uint64) {
	msg := broker.Publishing{Exchange: p.exchange, Sole: true, Order: 1}
	take := func(to *amqp091.Publishing) bool {
		b := p.writer.Take(id)
		if b != nil {
			*to = publishing(b, b.Records[0].User)
		}
		p.reserve()
		return b != nil
	}
	p.mu.Lock()
	ctx := p.ctx
	if e := p.next(); e != nil && e.alone {
		ends, cancel := context.WithCancel(e.ctx)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		ctx = ends
		take(&msg.Message)
	} else {
		msg.Fill = func(to *amqp091.Publishing) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			if e := p.next(); e != nil {
				e.alone = false // the one before it may be withdrawn
			}
			return take(to)
		}
	}
	p.mu.Unlock()
	err := p.broker.Publish(ctx, msg)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writer.Take(id) // if it was not written, that fails too
	p.settle(p.writer.Confirmed(id), err)
	p.reserve()
}

// close takes no more records, and waits a while for those that were submitted.
func (p *publisher) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	settle.Wait(&p.unsent, settle.DrainTimeout, p.abandon)
	p.abandon()
}

func (p *publisher) abandon() {
	p.timer.Stop()
	p.end()
	p.sending.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	_, waiting := p.writer.End() // what was taken is settled
	p.settle(waiting, p.fail(delayer.ErrClosed, nil, ""))
}

// publishing is a bundle as it is published. user is that of the connection, or empty.
func publishing(b *bundle.Bundle, user string) amqp091.Publishing {
	return amqp091.Publishing{
		ContentType: bundle.ContentType, DeliveryMode: amqp091.Persistent, UserId: user,
		MessageId: strconv.FormatUint(b.Number, 36), // tells it from others if it is returned
		Body:      b.Bytes(),
	}
}
