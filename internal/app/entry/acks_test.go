package entry

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// A written acknowledgement.
type written struct {
	tag      uint64
	multiple bool
}

// A noting channel notes what is acknowledged.
type noting struct {
	amqp091.Acknowledger // nil: nothing else is called
	all                  chan written
}

func (n noting) Ack(tag uint64, multiple bool) error {
	n.all <- written{tag, multiple}
	return nil
}

// TestGatherer: what is done within a while is acknowledged together, and what fills the prefetch
// at once.
func TestGatherer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		channel := noting{all: make(chan written, 100)}
		const prefetch = 40
		g, ended := newGatherer(prefetch), make(chan struct{})
		done := make(chan struct{})
		go func() { defer close(done); g.run(ended) }()
		deliver := func(first, last uint64) (all []amqp091.Delivery) {
			for tag := first; tag <= last; tag++ {
				d := amqp091.Delivery{Acknowledger: channel, DeliveryTag: tag}
				g.begin(&d)
				all = append(all, d)
			}
			return all
		}
		began := time.Now()
		for _, d := range deliver(1, 9) {
			require.NoError(t, d.Ack(false))
		}
		require.Equal(t, written{9, true}, <-channel.all)
		require.Equal(t, ackWithin, time.Since(began))
		for _, d := range deliver(10, 19) {
			require.NoError(t, d.Ack(false))
		}
		require.Equal(t, written{19, true}, <-channel.all)
		require.Equal(t, ackWithin, time.Since(began), "the broker waits for a quarter of the prefetch")
		last := deliver(20, 21)
		require.NoError(t, last[1].Ack(false))
		require.Equal(t, written{21, false}, <-channel.all)
		require.GreaterOrEqual(t, time.Since(began), aloneAfter)
		require.NoError(t, last[0].Ack(false))
		close(ended)
		<-done
		require.Equal(t, written{20, true}, <-channel.all, "nothing is left when it ends")
		require.Empty(t, channel.all)
	})
}

// TestGatherer_RejectBesideNext: the next message may begin while one is rejected.
func TestGatherer_RejectBesideNext(t *testing.T) {
	g := newGatherer(100)
	var rejected sync.WaitGroup
	for tag := uint64(1); tag <= 100; tag++ {
		d := amqp091.Delivery{Acknowledger: rejecting{}, DeliveryTag: tag}
		g.begin(&d)
		rejected.Go(func() {
			if tag%2 == 0 {
				_ = d.Reject(false)
			} else {
				_ = d.Nack(false, true)
			}
		})
	}
	rejected.Wait()
	d := amqp091.Delivery{Acknowledger: noting{all: make(chan written, 1)}, DeliveryTag: 101}
	g.begin(&d)
	require.NoError(t, d.Ack(false))
	require.Equal(t, uint64(101), g.acks.UpTo(), "nothing before it is under way")
}

// rejecting takes what is given back.
type rejecting struct {
	amqp091.Acknowledger // nil: nothing else is called
}

func (rejecting) Reject(uint64, bool) error     { return nil }
func (rejecting) Nack(uint64, bool, bool) error { return nil }
