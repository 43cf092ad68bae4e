package entry

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAcks(t *testing.T) {
	const lately, longAgo = time.Millisecond, aloneAfter
	for name, c := range map[string]struct {
		open     []uint64
		done     []uint64
		since    time.Duration // each is done
		prefetch int
		upTo     uint64
		single   []uint64
		wait     []uint64
	}{
		"nothing is done":              {open: []uint64{1, 2}},
		"all are done":                 {done: []uint64{2, 1, 3}, upTo: 3},
		"some are done":                {open: []uint64{4, 5}, done: []uint64{1, 2, 3}, upTo: 3},
		"the first is not done":        {open: []uint64{1}, done: []uint64{2, 3}, since: lately, wait: []uint64{2, 3}},
		"the first takes long":         {open: []uint64{1}, done: []uint64{2, 3}, since: longAgo, single: []uint64{2, 3}},
		"one in the middle takes long": {open: []uint64{3}, done: []uint64{1, 4, 2}, since: longAgo, upTo: 2, single: []uint64{4}},
		"many wait":                    {open: []uint64{1}, done: []uint64{2, 3, 4}, since: lately, prefetch: 12, single: []uint64{2, 3, 4}},
		"one at a time":                {done: []uint64{7}, prefetch: 1, upTo: 7},
	} {
		now := time.Now()
		a := newAcks(cmp.Or(c.prefetch, 100))
		for _, tag := range c.open {
			a.open[tag] = true
		}
		for _, tag := range c.done {
			a.finish(tag, now.Add(-c.since))
		}
		upTo, single := a.take(now)
		require.Equal(t, c.upTo, upTo, name)
		require.Equal(t, c.single, single, name)
		var wait []uint64
		for _, f := range a.done {
			wait = append(wait, f.tag)
		}
		require.Equal(t, c.wait, wait, name)
	}
}

// TestAcks_AnyOrder: the broker gets an acknowledgement of each message once, and of none that is not done.
func TestAcks_AnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefetch := rapid.IntRange(1, 40).Draw(t, "prefetch")
		now := time.Now()
		a, next := newAcks(prefetch), uint64(1)
		unacked, done := map[uint64]bool{}, map[uint64]bool{} // what the broker knows; what is stored
		ack := func(tag uint64, multiple bool) {
			require.True(t, unacked[tag], "the broker closes the channel over %d", tag)
			for known := range unacked {
				if known == tag || multiple && known < tag {
					require.True(t, done[known], "%d is not done", known)
					delete(unacked, known)
				}
			}
		}
		take := func() {
			upTo, single := a.take(now)
			if upTo > 0 {
				ack(upTo, true)
			}
			for _, tag := range single {
				ack(tag, false)
			}
		}
		open := func() uint64 {
			tags := []uint64{}
			for tag := range a.open {
				tags = append(tags, tag)
			}
			slices.Sort(tags)
			return rapid.SampledFrom(tags).Draw(t, "tag")
		}
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(*rapid.T) {
				if len(unacked) < prefetch {
					unacked[next], a.open[next] = true, true
					next++
				}
			},
			"finish": func(*rapid.T) {
				if len(a.open) > 0 {
					tag := open()
					done[tag] = true
					a.finish(tag, now)
				}
			},
			"give back": func(*rapid.T) {
				if len(a.open) > 0 {
					tag := open()
					delete(unacked, tag)
					delete(a.open, tag)
				}
			},
			"take": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ms")) * time.Millisecond)
				take()
			},
			"": func(t *rapid.T) {
				full := 0
				for tag := range unacked {
					if done[tag] {
						full++
					}
				}
				require.Equal(t, full, len(a.done), "what is done is acknowledged in the end")
			},
		})
		for len(a.open) > 0 {
			tag := open()
			done[tag] = true
			a.finish(tag, now)
		}
		take()
		require.Empty(t, unacked)
	})
}

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

// TestGatherer: what is done within a while is acknowledged together, and what fills the prefetch at once.
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
	require.Empty(t, g.acks.open)
}

// rejecting takes what is given back.
type rejecting struct {
	amqp091.Acknowledger // nil: nothing else is called
}

func (rejecting) Reject(uint64, bool) error     { return nil }
func (rejecting) Nack(uint64, bool, bool) error { return nil }
