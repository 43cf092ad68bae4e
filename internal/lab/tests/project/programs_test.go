package project_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// shortLadder has the delays of the programs. That of TestExamples is the default.
const shortLadder = "1s,2s,4s,8s"

// TestPrograms runs the short programs in examples. Their queues have fixed names.
func TestPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		queues []string
		want   []string // in any order
	}{
		"expiry": {[]string{"example-expiry"}, []string{"order 1 is expired", "order 2 is paid", "order 3 is expired"}},
		"retry-gorabbitmq": {[]string{"example-retry", "example-retry.parked"},
			[]string{"attempt 1 of 3 fails", "attempt 2 of 3 fails", "attempt 3 of 3: hello"}},
		"gorabbitmq": {[]string{"example-gorabbitmq"}, []string{"order 7 has not been paid, after 2s: true"}},
		"watermill":  {[]string{"example-watermill"}, []string{"order 7 has not been paid, after 2s: true"}},
		"debounce": {[]string{"example-debounce"}, []string{
			"edited: version 1", "edited: version 2", "edited: version 3", "edited: version 4", "edited: version 5", "indexed: version 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, prefix := rabbittest.Broker(t), rabbittest.Prefix(t)
			cmd := exec.Command("go", "run", "../../../../examples/"+name)
			cmd.Env = append(os.Environ(), "DELAYER_URL="+b.URL(), "DELAYER_PREFIX="+prefix, "DELAYER_BINARYLADDER_STEPS="+shortLadder)
			cmd.Stderr = t.Output()
			out, err := cmd.Output()
			require.NoError(t, err)
			got := strings.Split(strings.TrimSpace(string(out)), "\n")
			slices.Sort(got)
			assert.Equal(t, c.want, got)

			ch := rabbittest.NewRig(t, b).Ch
			for _, queue := range c.queues {
				left, err := ch.QueueDelete(queue, false, false, false)
				assert.NoError(t, err)
				assert.Zero(t, left, "messages left in %s", queue)
			}
			rabbittest.Remove(t, backend.Config{
				Options: delayer.Options{URL: b.URL(), Prefix: prefix}, BinaryLadder: binaryladder.Config{Steps: shortLadder},
			})
		})
	}
}
