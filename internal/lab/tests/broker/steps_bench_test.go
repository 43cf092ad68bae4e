package broker_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// BenchmarkLog_Open shows how long a process that starts takes to read the steps of the broker's
// clock from a stream that is full.
func BenchmarkLog_Open(b *testing.B) {
	r := newStepsRig(b, rabbittest.Broker(b).URL(), 10<<20)
	var all errgroup.Group
	all.SetLimit(1) // a chunk each, as of processes that start one after another
	entries := 80_000
	if testing.Short() {
		entries = 100
	}
	for range entries {
		all.Go(func() error { return r.write(aGreeting) })
	}
	require.NoError(b, all.Wait())
	_, log := r.open()
	r.endsWith(brokertime.Steps{})
	log.Close()
	for b.Loop() {
		_, log := r.open()
		log.Close()
	}
}
