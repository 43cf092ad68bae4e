package broker

import (
	"context"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
)

// A Poster publishes many messages without a goroutine for each. Messages are written in the order
// in which they were posted, and answered when the broker has confirmed them, in any order: one
// that is not confirmed holds up no other, until there are 1,024 of them.
type Poster struct {
	publisher *Publisher
	answer    func([]Answer)
	ctx       context.Context
	cancel    context.CancelFunc
	running   sync.WaitGroup

	mu     sync.Mutex
	queue  []posted // to be written,
	later  []posted // and after those
	sent   []posted // written, or about to be; the first sent first
	more   chan struct{}
	begun  chan struct{}
	wrote  chan struct{} // closed when nothing is written any more
	closed bool
}

// An Answer is what became of a message: Err is what [Publisher.Publish] would return.
type Answer struct {
	Tag any
	Err error
}

type posted struct {
	tag     any
	msg     Publishing
	channel *publisherChannel
	request *request
	written bool
	result  writeResult
	at      time.Time // when it was handed to the channel
}

const (
	// sweepEvery is how often all that is not confirmed is looked at, while the first is not.
	sweepEvery = 5 * time.Millisecond
	// postTimeout is how long a confirm may take: then it is unknown whether the message is stored.
	postTimeout = 5 * time.Minute
	// fewLater is how many messages that can wait are written between others.
	fewLater = 64
)

// NewPoster returns a Poster, which is to be closed. answer is called from goroutines of the
// Poster, with each tag once.
func (p *Publisher) NewPoster(answer func([]Answer)) *Poster {
	b := &Poster{publisher: p, answer: answer, more: make(chan struct{}, 1), begun: make(chan struct{}, 1), wrote: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.running.Go(b.write)
	b.running.Go(b.reap)
	return b
}

// Post publishes a message to an exchange of ours. It never waits. msg must not be changed before
// it is answered.
func (b *Poster) Post(msg Publishing, tag any) { b.post(&b.queue, msg, tag) }

// PostLater is Post for a message that others may overtake.
func (b *Poster) PostLater(msg Publishing, tag any) { b.post(&b.later, msg, tag) }

func (b *Poster) post(queue *[]posted, msg Publishing, tag any) {
	b.mu.Lock()
	closed := b.closed
	if !closed {
		*queue = append(*queue, posted{tag: tag, msg: msg})
	}
	b.mu.Unlock()
	if closed {
		go b.answer([]Answer{{tag, b.publisher.fail(delayer.ErrClosed, nil)}})
		return
	}
	signal(b.more)
}

// Close ends the Poster. What was not answered is answered now: it may be stored or not.
func (b *Poster) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write hands messages to channels.
func (b *Poster) write() {
	defer close(b.wrote)
	var batch []posted
	for {
		b.mu.Lock()
		batch, b.queue = b.queue, batch[:0]
		few := min(len(b.later), fewLater)
		batch = append(batch, b.later[:few]...)
		clear(b.later[:few])
		b.later = b.later[few:]
		b.mu.Unlock()
		for i := range batch {
			b.hand(&batch[i])
			batch[i] = posted{}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-b.more:
		case <-b.ctx.Done():
			b.mu.Lock()
			rest := len(b.queue) + len(b.later)
			b.mu.Unlock()
			if rest == 0 {
				return // closed was set before: nothing comes any more
			}
		}
	}
}

// hand hands one message to a channel. One that cannot share a channel is published apart.
func (b *Poster) hand(m *posted) {
	p := b.publisher
	if err := p.enter(b.ctx); err != nil {
		b.answer([]Answer{{m.tag, err}})
		return
	}
	if !m.msg.shares(&p.proof) {
		msg, tag := m.msg, m.tag
		b.running.Go(func() {
			defer p.pending.Done()
			ctx, cancel := context.WithTimeout(b.ctx, postTimeout)
			defer cancel()
			b.answer([]Answer{{tag, p.Publish(ctx, msg)}})
		})
		return
	}
	channel := p.shared()
	const wait = true
	err := channel.slot(b.ctx, wait)
	if err == nil {
		const one, leaves = 1, false // whoever posts does not touch the message before it is answered
		m.request, err = channel.submit(b.ctx, newRequest(m.msg, one, leaves))
	}
	if err != nil {
		p.pending.Done()
		b.answer([]Answer{{m.tag, err}})
		return
	}
	b.mu.Lock()
	b.sent = append(b.sent, posted{tag: m.tag, channel: channel, request: m.request, at: time.Now()})
	b.mu.Unlock()
	signal(b.begun)
}

// reap answers what is confirmed.
func (b *Poster) reap() {
	var waiting []posted
	var answers []Answer
	sweep := time.NewTimer(sweepEvery)
	defer sweep.Stop()
	for b.ctx.Err() == nil {
		waiting = b.take(waiting)
		all := b.await(waiting, sweep)
		waiting, answers = collect(waiting, answers[:0], all)
		for range answers {
			b.publisher.pending.Done()
		}
		if len(answers) > 0 {
			b.answer(answers)
		}
	}
	<-b.wrote
	b.abandon(b.take(waiting))
}

// take adds what was sent.
func (b *Poster) take(waiting []posted) []posted {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting = append(waiting, b.sent...)
	clear(b.sent)
	b.sent = b.sent[:0]
	return waiting
}

// await waits for the first message. It is true if all are to be looked at.
func (b *Poster) await(waiting []posted, sweep *time.Timer) (all bool) {
	if len(waiting) == 0 {
		select {
		case <-b.begun:
		case <-b.ctx.Done():
		}
		return false
	}
	first := &waiting[0]
	if !first.written {
		select {
		case first.result = <-first.request.written:
			first.written = true
		case <-first.channel.done:
			return true
		case <-b.ctx.Done():
			return true
		}
	}
	if first.result.err != nil {
		return false
	}
	sweep.Reset(sweepEvery)
	select {
	case <-first.result.confirm.Done():
		return false
	case <-sweep.C:
	case <-b.ctx.Done():
	}
	return true
}

// collect answers those that are done, of all or up to the first that is not.
func collect(waiting []posted, answers []Answer, all bool) ([]posted, []Answer) {
	left := waiting[:0]
	for i := range waiting {
		m := &waiting[i]
		done, err := m.outcome()
		if done {
			answers = append(answers, Answer{m.tag, err})
			continue
		}
		if !all {
			left = append(left, waiting[i:]...)
			break
		}
		left = append(left, *m)
	}
	clear(waiting[len(left):])
	return left, answers
}

// outcome returns what became of a message. done is false while that is unknown.
func (m *posted) outcome() (done bool, err error) {
	if !m.written {
		select {
		case m.result = <-m.request.written:
			m.written = true
		default:
			if !m.lost() {
				return false, nil
			}
		}
	}
	if m.result.err != nil {
		m.channel.release(m.request.slots)
		return true, m.result.err
	}
	select {
	case <-m.result.confirm.Done():
		return true, m.channel.finish(m.result, m.request)
	default:
	}
	if time.Since(m.at) > postTimeout {
		go m.channel.settle(m.request, m.result)
		return true, m.channel.fail(delayer.ErrUnknown, context.DeadlineExceeded, "the broker does not confirm it")
	}
	return false, nil
}

// lost reports whether a message was not written before its Publisher was closed.
func (m *posted) lost() bool {
	select {
	case <-m.channel.done:
	default:
		return false
	}
	m.written = true
	if m.request.withdraw() {
		m.result.err = m.channel.fail(delayer.ErrClosed, nil, "")
	} else {
		m.result = <-m.request.written
	}
	return true
}

// abandon answers what is not confirmed when the Poster is closed.
func (b *Poster) abandon(waiting []posted) {
	for i := range waiting {
		m := &waiting[i]
		switch {
		case m.written:
			go m.channel.settle(m.request, m.result)
		case m.request.withdraw():
			m.channel.release(m.request.slots)
		default:
			go func() { m.channel.settle(m.request, <-m.request.written) }()
		}
		b.publisher.pending.Done()
		b.answer([]Answer{{m.tag, m.channel.fail(delayer.ErrUnknown, delayer.ErrClosed, "")}})
	}
}
