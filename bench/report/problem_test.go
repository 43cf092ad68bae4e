package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The design promises these fields to whoever reads report.json.
func TestJSONHasThePromisedShape(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example().WriteJSON(&out))
	var report struct {
		Broker map[string]any
		Runs   []map[string]any
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	for _, key := range []string{"product", "version", "how"} {
		assert.Contains(t, report.Broker, key)
	}
	for _, key := range []string{"scenario", "backend", "variant", "queue_type", "published", "delivered", "lost",
		"duplicated", "early", "publish_per_s", "broker_cpu_us_per_msg", "broker_rss_bytes", "lateness_ms", "error"} {
		assert.Contains(t, report.Runs[0], key)
	}
	for _, key := range []string{"min", "p50", "p90", "p99", "max"} {
		assert.Contains(t, report.Runs[0]["lateness_ms"], key)
	}
}

func TestOnlyABaselineMayBeEarlyOrLose(t *testing.T) {
	for name, c := range map[string]struct {
		run  Run
		want string
	}{
		"fine":              {Run{Counts: Counts{Published: 9, Delivered: 9}}, ""},
		"early":             {Run{Counts: Counts{Delivered: 9, Early: 1}, EarlyByMS: 0.44}, "1 early, by up to 0.4 ms"},
		"lost and twice":    {Run{Counts: Counts{Delivered: 9, Lost: 1, Duplicated: 2}}, "1 lost, 2 delivered more than once"},
		"refused":           {Run{Counts: Counts{Delivered: 9, Failed: 3}, Error: "full"}, "3 failed to publish, full"},
		"no measurement":    {Run{Error: "no permission"}, "no permission"},
		"baseline, early":   {Run{Baseline: true, Counts: Counts{Delivered: 9, Early: 1, Lost: 1, Failed: 1}, Error: "full"}, ""},
		"baseline, nothing": {Run{Baseline: true, Error: "no permission"}, "no permission"},
	} {
		assert.Equal(t, c.want, c.run.Problem(), name)
	}
}

func TestAnOutageMayDoubleAndLoseWhatIsNotPromised(t *testing.T) {
	run := Run{Counts: Counts{Delivered: 9, Lost: 1, Duplicated: 2}}
	run.Outage = true
	assert.Equal(t, "1 lost", run.Problem())
	run.LossDeclared = true
	assert.Empty(t, run.Problem())
	run.Early = 1
	assert.Contains(t, run.Problem(), "1 early", "never early")
}
