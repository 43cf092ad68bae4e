package migrate_test

import (
	"context"
	"errors"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The series of messages.
const (
	pending = "pending" // in the plugin before the migration begins
	days    = "days"    // too, but due in days
	live    = "live"    // published while it runs
)

// A channelPublisher is a channel of amqp091-go, and so is what migrate.NewPublisher returns.
type channelPublisher interface {
	PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error
}

// rawPublisher publishes as an application that knows nothing of the migration. It waits for each
// confirm, and opens its channel again.
type rawPublisher struct {
	conn    *amqp091.Connection
	ch      *amqp091.Channel
	returns chan amqp091.Return
}

var errReturned = errors.New("basic.return")

func (p *rawPublisher) PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error {
	if p.ch == nil {
		ch, err := p.conn.Channel()
		if err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		p.ch, p.returns = ch, ch.NotifyReturn(make(chan amqp091.Return, 1))
	}
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
	ok := false
	if err == nil {
		ok, err = confirm.WaitContext(ctx)
	}
	if err == nil && !ok {
		err = errors.New("not confirmed")
	}
	if err != nil {
		_ = p.ch.Close()
		p.ch = nil
		return err
	}
	select {
	case <-p.returns: // comes before its confirm
		return errReturned
	default:
		return nil
	}
}

// fill publishes messages to the plugin, whose delays are spread over a span.
func (r *rehearsal) fill(series, kind string, n int, from, to time.Duration) {
	r.Helper()
	var channels []*amqp091.Channel
	for _, conn := range r.fillers {
		ch, err := conn.Channel()
		require.NoError(r, err)
		defer ch.Close() //nolint:errcheck // all is confirmed
		require.NoError(r, ch.Confirm(false))
		channels = append(channels, ch)
	}
	var confirms []*amqp091.DeferredConfirmation
	for i := range n {
		l, delay := letter{series, kind, i}, from+(to-from)*time.Duration(i)/time.Duration(n)
		msg := l.message(r.user)
		msg.Headers["x-delay"] = delay.Milliseconds()
		r.ask(l, delay.Truncate(time.Millisecond))
		confirm, err := channels[i%len(channels)].PublishWithDeferredConfirm(r.exchange(kind), l.key(), false, false, msg)
		require.NoError(r, err)
		confirms = append(confirms, confirm)
		r.account.Answer(l.id(), r.account.Now(), nil)
	}
	for _, confirm := range confirms {
		require.True(r, confirm.Wait())
	}
}

// produce publishes until ctx ends. What fails is tried again, as an application does.
func (r *rehearsal) produce(ctx context.Context, kind string, from int, p channelPublisher) {
	const pause, longest = 20 * time.Millisecond, 3000
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := from; ctx.Err() == nil; i++ {
		l, began := letter{live, kind, i}, time.Now()
		for {
			err := r.produceOne(l, time.Duration(i*37%longest)*time.Millisecond, p)
			r.account.Answer(l.id(), r.account.Now(), err)
			if err == nil {
				break
			}
			r.failed(err, time.Since(began))
			if time.Since(began) > rehearsalPatience {
				assert.NoError(r, err, "a publisher gives up")
				return
			}
			<-tick.C
		}
		<-tick.C
	}
}

// produceOne publishes one message, every fourth without a delay.
func (r *rehearsal) produceOne(l letter, delay time.Duration, p channelPublisher) error {
	ctx, cancel := context.WithTimeout(context.Background(), rehearsalPatience)
	defer cancel()
	msg, atOnce := l.message(r.user), l.number%4 == 0
	if atOnce {
		delay = 0
	} else {
		msg.Headers["x-delay"] = delay.Milliseconds()
	}
	r.ask(l, delay)
	return p.PublishWithContext(ctx, r.exchange(l.kind), l.key(), atOnce, false, msg)
}

// consume notes all that arrives for an exchange until the connection is closed, or rest is called.
func (r *rehearsal) consume(kind string) {
	deliveries, cancel := r.ConsumeUntil(r.queue(kind))
	r.consumers = append(r.consumers, cancel)
	r.running.Go(func() {
		for d := range deliveries {
			r.arrived(d)
		}
	})
}

// rest ends the consumers, and returns when all is noted that they were sent.
func (r *rehearsal) rest() {
	for _, cancel := range r.consumers {
		cancel()
	}
	r.consumers = nil
	r.running.Wait()
}

// allArrive waits until nothing is missing.
func (r *rehearsal) allArrive() {
	r.Helper()
	require.NoError(r, r.account.Await(r.Context(), rehearsalPatience))
}
