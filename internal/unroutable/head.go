package unroutable

import "context"

// Head returns the first message of the queue, without its body, or nil if it is empty. The message
// goes back to its place at once.
func (b *Client) Head(ctx context.Context) (*Message, error) {
	ch, err := b.conn.Channel(ctx)
	if err != nil {
		return nil, b.explain("look at", b.Queue(), err)
	}
	defer ch.Close() //nolint:errcheck // gives the message back; a lost connection does so too
	const autoAck = false
	d, ok, err := ch.Get(b.Queue(), autoAck)
	if err != nil || !ok {
		return nil, b.explain("look at", b.Queue(), err)
	}
	m := newMessage(d, nil, nil)
	m.Forget()
	return m, nil
}
