package controller_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkIdle shows what controllers of slots cost the broker that have nothing to do. Read
// broker-ms/s, less that of no controller: 10 are a percent of a core.
// go test -bench Idle -benchtime 1x.
func BenchmarkIdle(b *testing.B) {
	node := rabbittest.Alone(b)
	for _, controllers := range []int{0, 1, 5} {
		b.Run(fmt.Sprintf("controllers=%d", controllers), func(b *testing.B) {
			for range max(1, controllers) {
				run := delayer.On
				if controllers == 0 {
					run = delayer.Off
				}
				d, err := controller.Open(b.Context(), controller.Config{Options: delayer.Options{URL: node.URL()}, Run: run})
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, d.Close()) })
			}
			const settle, measured = 30 * time.Second, 2 * time.Minute
			time.Sleep(settle)
			before, err := node.CPU()
			require.NoError(b, err)
			time.Sleep(measured)
			after, err := node.CPU()
			require.NoError(b, err)
			b.ReportMetric(float64((after-before).Microseconds())/1e3/measured.Seconds(), "broker-ms/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
