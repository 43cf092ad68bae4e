package broker

import "context"

// inFlight is how many messages of a batch may be unconfirmed. The other half of a channel's slots
// is left to others.
const inFlight = window / 2

// A Batch publishes messages one behind the other without waiting for each confirm. One goroutine
// uses it. It never waits for a slot or a channel while it holds one that only itself can free:
// several batches would wait for one another.
type Batch struct {
	publisher *Publisher
	shared    *publisherChannel // one for all messages that are not direct: it keeps their order
	result    func(index int, err error)
	sent      []sent // oldest first
}

// A sent message waits for its confirm.
type sent struct {
	index   int
	channel *publisherChannel
	request *request
}

// NewBatch returns a Batch that calls result once for each message, with what [Publisher.Publish]
// would return. It is called by Publish and Flush. A destination that does not confirm holds up a
// batch: messages without a delay to different destinations belong into different batches.
func (p *Publisher) NewBatch(result func(index int, err error)) *Batch {
	return &Batch{publisher: p, shared: p.shared(), result: result}
}

// Publish sends a message, and waits for the confirm of the oldest one if too many are unconfirmed.
// A message that is not direct and that the broker may not accept is published alone, behind those
// before it. All calls take the same ctx.
func (b *Batch) Publish(ctx context.Context, index int, msg Publishing) {
	p := b.publisher
	if err := p.enter(ctx); err != nil {
		b.result(index, err)
		return
	}
	apart := !msg.Direct && !p.proof.covers(len(msg.Message.Body))
	if apart {
		b.Flush(ctx)
	}
	req, channel, err := b.submit(ctx, &msg)
	if err != nil {
		p.pending.Done()
		b.result(index, err)
		return
	}
	b.sent = append(b.sent, sent{index, channel, req})
	if apart || len(b.sent) == inFlight {
		b.settle(ctx)
	}
}

func (b *Batch) submit(ctx context.Context, msg *Publishing) (*request, *publisherChannel, error) {
	for {
		mayWait := len(b.sent) == 0
		channel, slots, err := b.publisher.acquire(ctx, msg, b.shared, mayWait)
		if err == errBusy { //nolint:errorlint // it is not wrapped
			b.settle(ctx)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		req, err := channel.submit(ctx, newRequest(*msg, slots, ctx.Done() != nil))
		return req, channel, err
	}
}

// Flush waits for the confirms of all messages that were sent.
func (b *Batch) Flush(ctx context.Context) {
	for len(b.sent) > 0 {
		b.settle(ctx)
	}
}

// settle waits for the confirm of the oldest message.
func (b *Batch) settle(ctx context.Context) {
	s := b.sent[0]
	b.sent = b.sent[1:]
	err := s.channel.await(ctx, s.request)
	b.publisher.pending.Done()
	b.result(s.index, err)
}
