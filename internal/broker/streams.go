package broker

import "github.com/delayer-go/delayer"

// Streams have channels of their own.
//
// A RabbitMQ channel numbers its messages twice: all of them, and those to each stream. When a stream
// gets another leader, RabbitMQ 3.10 to 3.13 sends those without a confirm again under the first number
// (rabbit_stream_queue:resend_all/1; mended in 4.0). The new leader then takes the next messages for
// duplicates, as far as the two numbers differ: it confirms them and stores nothing. On a channel
// that writes to one stream only they do not differ. A message that was returned has the first
// number alone, so the channel is replaced. Not seen is a stream that was deleted and declared again
// between two messages, and whose leader then changes.

// stream returns the channel for the messages to a stream.
func (p *Publisher) stream(name string) (*publisherChannel, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, p.fail(delayer.ErrClosed, nil)
	}
	c, known := p.streams[name]
	if !known {
		c = newPublisherChannel(p.backend, p.direct.conn, window, func() {})
		c.stream = true
		p.streams[name] = c
	}
	return c, nil
}
