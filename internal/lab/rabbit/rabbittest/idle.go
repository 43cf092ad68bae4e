package rabbittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// ReportAtRest reports how much processor time a broker takes in two minutes in which nothing is
// done, from half a minute on, as broker-ms/s: 10 are a percent of a core. An empty broker takes
// some itself. With -short it only stays alive.
func ReportAtRest(b *testing.B, node *rabbit.Broker) {
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
