package leader

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/bundle"
)

// TestLeader_Memory: what is due within two turns at 10,000 a second, 80,000 messages of 100 bytes,
// takes less than 64 MiB, bundles included.
func TestLeader_Memory(t *testing.T) {
	b := newBench(t, Config{})
	const each, bundles = 312, 256 // 79,872 records
	b.at(10 * time.Second)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, begin := range []time.Duration{12 * time.Second, 16 * time.Second} {
		turn := Default().at(0, start.Add(begin))
		q := b.queues[Default().Slot(turn)]
		for n := range bundles / 2 {
			filled := &bundle.Bundle{Writer: "t0", Number: uint64(n), InSlot: true, Turn: turn}
			for i := range each {
				due := at(begin + 4*time.Second*time.Duration(i)/each)
				rec := bundle.Record{ID: fmt.Sprintf("5BQ2ZK7M1A%06d", n*each+i), Due: due, At: int64(n), To: "~d:=orders", Payload: make([]byte, 150)}
				filled.Records = append(filled.Records, rec)
			}
			written, err := bundle.Read(filled.Bytes())
			require.NoError(t, err)
			q.ready = append(q.ready, written)
		}
		delete(b.leader.empty, Default().Slot(turn))
	}
	b.run(2100 * time.Millisecond)
	require.Greater(t, b.leader.Stats.Held, each*bundles-2000, "some are delivered by now")
	for _, q := range b.queues { // a shell does not keep them
		for _, unacked := range q.unacked {
			unacked.Records = nil
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d records: %d MiB, %d bytes each", each*bundles, held>>20, held/each/bundles)
	require.Less(t, held, uint64(64<<20))
	runtime.KeepAlive(b)
}
