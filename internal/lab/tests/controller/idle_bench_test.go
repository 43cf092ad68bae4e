package controller_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkIdle shows what slots cost a broker when there is nothing to do: the broker alone; with
// the queues and a Delayer that runs no controller; with one controller, and with five; and with
// the queues that are left when all are gone. go test -bench Idle -benchtime 1x.
func BenchmarkIdle(b *testing.B) {
	node := rabbittest.Alone(b)
	b.Run("nothing", func(b *testing.B) { reportAtRest(b, node) })
	for _, controllers := range []int{0, 1, 5} {
		b.Run(fmt.Sprintf("controllers=%d", controllers), func(b *testing.B) {
			for range max(1, controllers) {
				cfg := controller.Config{PublishOnly: controllers == 0}
				d, err := controller.Open(b.Context(), delayer.Options{URL: node.URL()}, cfg)
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, d.Close()) })
			}
			reportAtRest(b, node)
		})
	}
	b.Run("queues", func(b *testing.B) { reportAtRest(b, node) })
}

// reportAtRest reports how much processor time a broker takes in two minutes in which nothing is
// done, from half a minute on, as broker-ms/s: 10 are a percent of a core. An empty broker takes
// some itself. With -short it only stays alive.
func reportAtRest(b *testing.B, node *rabbit.Broker) {
	b.Helper()
	settle, measured := 30*time.Second, 2*time.Minute
	if testing.Short() {
		settle, measured = 0, time.Second
	}
	time.Sleep(settle)
	before, err := node.CPU()
	require.NoError(b, err)
	time.Sleep(measured)
	after, err := node.CPU()
	require.NoError(b, err)
	b.ReportMetric(float64((after-before).Microseconds())/1e3/measured.Seconds(), "broker-ms/s")
	b.ReportMetric(0, "ns/op")
}
