package baseline

import (
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/amqpclient"
)

// closeTimeout bounds the goodbye: a broker that is gone must not delay the end of a benchmark.
const closeTimeout = 5 * time.Second

// publisher is one connection with one channel in confirm mode. Goroutines pipeline over it: each
// waits for its own deferred confirm.
type publisher struct {
	conn *amqp091.Connection
	ch   *amqp091.Channel
}

func openPublisher(ctx context.Context, url, name string) (*publisher, error) {
	conn, err := amqpclient.Dial(ctx, url, name)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(wait)
	}
	if err != nil {
		_ = conn.Close()
		return nil, &delayer.Error{Op: "open", Backend: "baseline", Kind: delayer.ErrUnavailable, Cause: err}
	}
	return &publisher{conn: conn, ch: ch}, nil
}

func (p *publisher) publish(ctx context.Context, exchange, key string, msg amqp091.Publishing) error {
	const mandatory, immediate = false, false
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
	if err != nil {
		return publishError(delayer.ErrUnknown, err)
	}
	acked, err := confirm.WaitContext(ctx)
	switch {
	case err != nil:
		return publishError(delayer.ErrUnknown, err)
	case acked:
		return nil
	case p.ch.IsClosed():
		// A dying connection resolves its confirms as if they were refused.
		return publishError(delayer.ErrUnknown, errors.New("connection lost"))
	}
	return publishError(delayer.ErrRefused, nil)
}

func publishError(kind, cause error) error {
	return &delayer.Error{Op: "publish", Backend: "baseline", Kind: kind, Cause: cause}
}

// Close closes the connection. It may be called more than once.
func (p *publisher) Close() error {
	err := p.conn.CloseDeadline(time.Now().Add(closeTimeout))
	if errors.Is(err, amqp091.ErrClosed) {
		return nil
	}
	return err
}
