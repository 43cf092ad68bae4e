package broker_test

import (
	"sync"
	"sync/atomic"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// postbox collects the answers of a Poster.
type postbox struct {
	mu      sync.Mutex
	answers map[int][]error
	left    int
	done    chan struct{} // closed when none is left
}

func newPostbox(messages int) *postbox {
	return &postbox{answers: map[int][]error{}, left: messages, done: make(chan struct{})}
}

func (b *postbox) answer(answers []broker.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range answers {
		b.answers[a.Tag.(int)] = append(b.answers[a.Tag.(int)], a.Err)
		if b.left--; b.left == 0 {
			close(b.done)
		}
	}
}

func TestPoster_Outcomes(t *testing.T) {
	t.Parallel()
	p, c := open(t, rabbittest.Broker(t).URL(), noReset)
	queue := declare(t, c, nil)
	full := declare(t, c, amqp091.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	require.NoError(t, p.Publish(within(t), to(full)))
	const messages = 5000 // more than a channel has slots
	box := newPostbox(messages)
	b := p.NewPoster(box.answer)
	for i := range messages {
		switch {
		case i%10 == 1:
			b.Post(to(queue+".nowhere"), i)
		case i%10 == 2:
			b.Post(to(full), i)
		default:
			b.Post(to(queue), i)
		}
	}
	<-box.done
	for i := range messages {
		require.Len(t, box.answers[i], 1, "message %d", i)
		switch err := box.answers[i][0]; {
		case i%10 == 1:
			require.ErrorIs(t, err, broker.ErrReturned)
		case i%10 == 2:
			require.ErrorIs(t, err, delayer.ErrRefused)
		default:
			require.NoError(t, err)
		}
	}
	b.Close()
}

// TestPoster_Close: all is answered, however much was not sent.
// TestPoster_Later: what must go now overtakes what can wait.
func TestPoster_Later(t *testing.T) {
	t.Parallel()
	p, c := open(t, rabbittest.Broker(t).URL(), noReset)
	queue := declare(t, c, amqp091.Table{"x-queue-type": "quorum"})
	resume := rabbittest.Suspend(t, rabbittest.Broker(t), queue) // or all may be written before the last is posted
	msg := to(queue)
	const messages = 5000 // more than a channel has slots
	box := newPostbox(messages + 1)
	b := p.NewPoster(box.answer)
	defer b.Close()
	var written, before atomic.Int64
	msg.Written = func() { written.Add(1) }
	for i := range messages {
		b.PostLater(msg, i)
	}
	msg.Written = func() { before.Store(written.Load()) }
	b.Post(msg, messages)
	resume()
	<-box.done
	require.Less(t, before.Load(), int64(messages-1000))
}

func TestPoster_Close(t *testing.T) {
	t.Parallel()
	p, c := open(t, rabbittest.Broker(t).URL(), noReset)
	queue := declare(t, c, nil)
	const messages = 5000
	box := newPostbox(messages + 1)
	b := p.NewPoster(box.answer)
	for i := range messages {
		b.Post(to(queue), i)
	}
	b.Close()
	b.Post(to(queue), messages)
	<-box.done
	for i := range messages + 1 {
		require.Len(t, box.answers[i], 1, "message %d", i)
	}
	require.ErrorIs(t, box.answers[messages][0], delayer.ErrClosed)
	require.NoError(t, p.Publish(within(t), to(queue)), "the Publisher goes on")
}
