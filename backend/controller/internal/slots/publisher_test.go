package slots

import (
	"context"
	"testing"
	"testing/synctest"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// silent is a broker that confirms nothing. It writes what it is given when write is closed.
type silent struct{ write chan struct{} }

func (silent) Covers(int) bool { return false }

func (s silent) Publish(ctx context.Context, msg broker.Publishing) error {
	<-s.write
	if msg.Fill != nil {
		msg.Fill(&amqp091.Publishing{})
	}
	<-ctx.Done()
	return &delayer.Error{Kind: delayer.ErrUnknown}
}

func large(id string) bundle.Record {
	return bundle.Record{ID: id, Due: at, Payload: make([]byte, bundle.LoneSize+1)}
}

// TestPublisher_Close gives up what is unconfirmed, also what is alone on its channel, whose ctx does
// not end.
func TestPublisher_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := silent{make(chan struct{})}
		close(s.write)
		p := newPublisher(s, "enter", "me")
		for _, rec := range []bundle.Record{{ID: "small", Due: at}, large("large")} {
			e, err := p.submit(context.Background(), rec)
			require.NoError(t, err)
			go func() { require.ErrorIs(t, e.Wait(context.Background()), delayer.ErrUnknown) }()
			synctest.Wait()
		}
		p.close()
		_, err := p.submit(t.Context(), large("late"))
		require.ErrorIs(t, err, delayer.ErrClosed)
	})
}

// TestPublisher_InThePlaceOfAnother: a large message takes the place of one that was withdrawn, on
// the channel of the others. It still ends with its ctx.
func TestPublisher_InThePlaceOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := silent{make(chan struct{})}
		p := newPublisher(s, "enter", "me")
		ctx, cancel := context.WithCancel(t.Context())
		small, err := p.submit(ctx, bundle.Record{ID: "small", Due: at})
		require.NoError(t, err)
		synctest.Wait()
		e, err := p.submit(t.Context(), large("large"))
		require.NoError(t, err)
		cancel()
		require.ErrorIs(t, small.Wait(ctx), delayer.ErrNotSent)
		close(s.write)
		synctest.Wait()
		require.ErrorIs(t, e.Wait(ctx), delayer.ErrUnknown)
		p.close()
	})
}
