package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
)

// A destination is what a message is published to.
type destination struct {
	exchange string
	queue    string // with the default exchange
	apart    string
}

func (m *Publishing) destination() destination {
	if m.Exchange == "" {
		return destination{queue: m.Key}
	}
	return destination{exchange: m.Exchange, apart: m.Apart}
}

// A pool lends each destination a channel for as long as messages to it are unconfirmed. So a
// destination that does not confirm takes nothing from another, and an error that closes a channel
// concerns messages to one destination.
type pool struct {
	backend string
	open    func() *publisherChannel
	most    func() int // channels that there may be

	mu      sync.Mutex
	lent    map[destination]*publisherChannel
	free    []*publisherChannel // the one that was used last is the last
	freed   chan struct{}       // closed when a channel is free, if somebody waits; nil otherwise
	closed  bool
	retired sync.WaitGroup // channels that were closed since they were not needed
}

const (
	// poolWindow is how many messages to one destination may be unconfirmed. A channel whose queue
	// does not answer is granted no more credit. RabbitMQ then reads 200 more of its messages, and
	// after that nothing more from the whole connection (credit_flow).
	poolWindow = 128
	// keptFree is how many free channels stay open. Of others those are closed that have been free
	// for freeFor when another becomes free.
	keptFree = 8
	freeFor  = 10 * time.Second
	// mostChannels bounds the pool. A broker with a smaller channel_max has room for others beside.
	mostChannels = 1000
)

// newPool returns a pool with one channel that is open before it is needed.
func newPool(publisher *Publisher, conn *Conn) *pool {
	p := &pool{backend: publisher.backend, lent: map[destination]*publisherChannel{}}
	p.open = func() *publisherChannel {
		return publisher.start(&publisherChannel{conn: conn, onReset: func() {}, pool: p}, poolWindow)
	}
	p.most = func() int {
		if state, _ := conn.now(); state.conn != nil {
			return min(mostChannels, int(state.conn.Config.ChannelMax)/2)
		}
		return mostChannels
	}
	p.free = append(p.free, p.open())
	return p
}

// take returns the channel of a destination, which put gives back: the one that it has or had,
// another that is free, or a new one. If all are lent it waits for one that is free.
func (p *pool) take(ctx context.Context, to destination) (*publisherChannel, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return nil, &delayer.Error{Op: "publish", Backend: p.backend, Kind: delayer.ErrClosed}
		}
		c := p.lent[to]
		if c == nil {
			switch at := slices.IndexFunc(p.free, func(c *publisherChannel) bool { return c.to == to }); {
			case at >= 0:
				c = p.free[at]
				p.free = slices.Delete(p.free, at, at+1)
			case len(p.free) > 0:
				last := len(p.free) - 1
				c = p.free[last]
				p.free = slices.Delete(p.free, last, last+1)
				c.to = to
				c.accepts.Store(false)
			case len(p.lent) < p.most():
				c = p.open()
				c.to = to
			}
		}
		if c != nil {
			p.lent[to] = c
			c.users++
			return c, nil
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			return nil, &delayer.Error{
				Op: "publish", Backend: p.backend, Kind: delayer.ErrNotSent, Cause: context.Cause(ctx),
				Hint: fmt.Sprintf("%d destinations have not confirmed their messages, and there is no channel for another", p.most()),
			}
		}
	}
}

// put gives a channel back.
func (p *pool) put(c *publisherChannel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	delete(p.lent, c.to)
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
	c.since = time.Now()
	p.free = append(p.free, c)
	for !p.closed && len(p.free) > keptFree && time.Since(p.free[0].since) >= freeFor {
		p.free[0].cancel()
		p.retired.Go(p.free[0].ended)
		p.free = p.free[1:]
	}
}

// close takes the channels out of the pool. Whoever waits for one gets ErrClosed.
func (p *pool) close() []*publisherChannel {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
	return slices.AppendSeq(slices.Clone(p.free), maps.Values(p.lent))
}
