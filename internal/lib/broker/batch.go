package broker

import "context"

// inFlight is how many messages of a batch may be unconfirmed. The other half of a channel's slots
// is left to others.
const inFlight = window / 2

// A Batch publishes messages one behind the other without waiting for each confirm. One goroutine
// uses it. It never waits for a slot while it holds one that only itself can free: several batches
// would wait for one another.
type Batch struct {
	publisher *Publisher
	shared    *publisherChannel // one for all messages that are not direct: it keeps their order
	result    func(index int, err error)
	sent      []sent // a ring
	oldest, n int
}

// A sent message waits for its confirm.
type sent struct {
	index   int
	msg     Publishing
	channel *publisherChannel
	request *request
}

// NewBatch returns a Batch that calls result once for each message, with what [Publisher.Publish]
// would return. It is called by Publish and Flush.
func (p *Publisher) NewBatch(result func(index int, err error)) *Batch {
	const direct = true
	return &Batch{publisher: p, shared: p.shared(!direct), result: result, sent: make([]sent, inFlight)}
}

// Publish sends a message, and waits for the confirm of the oldest one if too many are unconfirmed.
// A message that the broker may not accept is published alone, behind those before it. All calls
// take the same ctx.
func (b *Batch) Publish(ctx context.Context, index int, msg Publishing) {
	p := b.publisher
	if err := p.enter(ctx); err != nil {
		b.result(index, err)
		return
	}
	channel := b.shared
	if msg.Direct {
		channel = p.direct
	}
	if !p.proof.covers(msg) {
		b.Flush(ctx)
		err := p.publish(ctx, msg, channel)
		p.pending.Done()
		b.result(index, err)
		return
	}
	req, err := b.submit(ctx, channel, msg)
	if err != nil {
		p.pending.Done()
		b.result(index, err)
		return
	}
	b.sent[(b.oldest+b.n)%inFlight] = sent{index, msg, channel, req}
	b.n++
	if b.n == inFlight {
		b.settle(ctx)
	}
}

func (b *Batch) submit(ctx context.Context, channel *publisherChannel, msg Publishing) (*request, error) {
	for !channel.tryAcquire() {
		if b.n > 0 {
			b.settle(ctx)
			continue
		}
		if err := channel.acquire(ctx); err != nil {
			return nil, err
		}
		break
	}
	return channel.submit(ctx, msg)
}

// Flush waits for the confirms of all messages that were sent.
func (b *Batch) Flush(ctx context.Context) {
	for b.n > 0 {
		b.settle(ctx)
	}
}

// settle waits for the confirm of the oldest message.
func (b *Batch) settle(ctx context.Context) {
	s := b.sent[b.oldest]
	b.sent[b.oldest] = sent{}
	b.oldest = (b.oldest + 1) % inFlight
	b.n--
	err := s.channel.await(ctx, s.request)
	b.publisher.proof.learn(s.msg, err)
	b.publisher.pending.Done()
	b.result(s.index, err)
}
