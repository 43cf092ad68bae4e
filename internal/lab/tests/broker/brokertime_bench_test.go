package broker_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkClock_Idle shows what processes that do nothing but know the time cost the broker. Read
// broker-ms/s, less that of no clock: 10 are a percent of a core. go test -bench
// Clock_Idle -benchtime 1x.
func BenchmarkClock_Idle(b *testing.B) {
	node := rabbittest.Alone(b)
	const most = 20
	for _, clocks := range []int{0, 1, 5, most} {
		b.Run(fmt.Sprintf("clocks=%d", clocks), func(b *testing.B) {
			r := newStepsRig(b, node.URL(), 1<<20)
			ctx, cancel := context.WithCancel(b.Context())
			var run sync.WaitGroup
			b.Cleanup(func() { cancel(); run.Wait() })
			for i := range most {
				r.publisher, r.control = open(b, node.URL(), func() {})
				c := r.clock(slog.New(slog.DiscardHandler))
				if i < clocks {
					run.Go(func() { c.Run(ctx) })
				}
			}
			rabbittest.ReportAtRest(b, node)
		})
	}
}
