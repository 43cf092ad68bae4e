package migrate_test

import (
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkEvacuate measures how fast delayer migrate evacuate takes messages out of the plugin
// (msg/s, with all that it does before and after), and how much memory it takes at most (MB).
func BenchmarkEvacuate(b *testing.B) {
	r := newRehearsal(b, "evacuation", build(b))
	r.ctl = r.broker.CtlCommand()
	kind := r.kinds[0]
	r.fill(days, kind, b.N, 48*time.Hour, 50*time.Hour)
	cmd, said := r.command("evacuate", "--rabbitmqctl", r.ctl, "--exchange", r.exchange(kind))
	b.ResetTimer()
	require.NoError(b, cmd.Run(), "%s", said)
	b.StopTimer()
	b.Logf("%s", said)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(peak(cmd.ProcessState), "MB")
	require.Zero(b, r.inPlugin())
}

// peak is the most memory that a process had, in MB; 0 where the system does not tell.
func peak(state *os.ProcessState) float64 {
	usage := reflect.Indirect(reflect.ValueOf(state.SysUsage())).FieldByName("Maxrss") // of Linux
	if !usage.IsValid() {
		return 0
	}
	return float64(usage.Int()) / 1024
}
