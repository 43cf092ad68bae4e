package migrate_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
)

// BenchmarkEvacuate measures how fast delayer migrate evacuate takes messages out of the plugin
// (msg/s, with all that it does before and after), its processor time and the broker's for a
// message (µs), and the most memory that it takes (MB). The broker's memory is that before and
// after. For a million: -benchtime 1000000x
func BenchmarkEvacuate(b *testing.B) {
	r := newRehearsal(b, "serve", build(b)) // its exchange routes by topic
	r.ctl = r.Broker.CtlCommand()
	kind := r.kinds[0]
	r.fillDays(kind, b.N)
	cmd, said := r.command("evacuate", "--rabbitmqctl", r.ctl, "--exchange", r.exchange(kind))
	cpu, memory := r.brokerUses()
	b.ResetTimer()
	peak, err := watched(cmd)
	b.StopTimer()
	require.NoError(b, err, "%s", said)
	cpuAfter, memoryAfter := r.brokerUses()
	each := func(spent time.Duration) float64 { return float64(spent.Microseconds()) / float64(b.N) }
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(peak, "MB")
	b.ReportMetric(each(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()), "µs/msg")
	b.ReportMetric(each(cpuAfter-cpu), "broker-µs/msg")
	b.ReportMetric(memory, "broker-MB-before")
	b.ReportMetric(memoryAfter, "broker-MB-after")
	require.Zero(b, r.inPlugin())
	require.Equal(b, b.N, r.countLadder())
}

// brokerUses is what a broker of our own has used, and its memory in MB.
func (r *rehearsal) brokerUses() (cpu time.Duration, memory float64) {
	if !r.Broker.Owned() {
		return 0, 0
	}
	cpu, err := r.Broker.CPU()
	require.NoError(r, err)
	rss, err := r.Broker.RSS()
	require.NoError(r, err)
	return cpu, float64(rss) / (1 << 20)
}

// countLadder adds up the messages in the Delayer's queues.
func (r *rehearsal) countLadder() (n int) {
	plan, err := backend.Topology(r.cfg)
	require.NoError(r, err)
	ch, err := r.Conn.Channel()
	require.NoError(r, err)
	for _, q := range plan.Queues {
		if !strings.Contains(q.Name, ".wait.") {
			continue // what the Delayer knows of itself
		}
		is, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
		require.NoError(r, err)
		n += is.Messages
	}
	return n
}

// highWater is the most memory that a process has had, in MB; 0 where the system does not tell.
// What a process's usage says at its end includes its children, and rabbitmqctl is larger than the
// tool.
func highWater(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes float64
	_, _ = fmt.Sscan(after, &kilobytes)
	return kilobytes / (1 << 10)
}

// watched runs a command and returns its high-water mark.
func watched(cmd *exec.Cmd) (peak float64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	const pause = 100 * time.Millisecond
	for tick := time.Tick(pause); ; {
		select {
		case err := <-ended:
			return peak, err
		case <-tick:
			peak = max(peak, highWater(cmd.Process.Pid))
		}
	}
}
