package report

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parsed reads Go's benchmark format as strictly as its specification allows: settings, units,
// results.
func parsed(t *testing.T, text string) (settings, units map[string]string, results map[string]map[string]float64) {
	t.Helper()
	setting := regexp.MustCompile(`^([a-z][^\sA-Z]*): (.+)$`)
	unit := regexp.MustCompile(`^Unit (\S+) better=(higher|lower)$`)
	settings, units, results = map[string]string{}, map[string]string{}, map[string]map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := setting.FindStringSubmatch(line); m != nil {
			settings[m[1]] = m[2]
			continue
		}
		if m := unit.FindStringSubmatch(line); m != nil {
			units[m[1]] = m[2]
			continue
		}
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		require.Regexp(t, `^Benchmark[A-Z]\S*$`, fields[0])
		require.Zero(t, len(fields)%2, "a value without a unit: %s", line)
		iterations, err := strconv.Atoi(fields[1])
		require.NoError(t, err)
		require.Positive(t, iterations)
		values := map[string]float64{}
		for i := 2; i < len(fields); i += 2 {
			require.Contains(t, units, fields[i+1], "a unit that no line before describes")
			values[fields[i+1]], err = strconv.ParseFloat(fields[i], 64)
			require.NoError(t, err)
		}
		results[fields[0]] = values
	}
	return settings, units, results
}

func TestBenchfmt(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example().WriteBenchfmt(&out))
	settings, units, results := parsed(t, out.String())
	assert.Equal(t, map[string]string{"goos": "linux", "goarch": "amd64", "cores": "2", "broker": "RabbitMQ 3.10.8"}, settings)
	assert.Equal(t, "higher", units["publish-msg/s"])
	assert.Equal(t, "lower", units["p99-sec"])
	assert.Len(t, results, 5, "a run that measured nothing has no line")
	assert.Equal(t, map[string]float64{
		"broker-CPU-sec/msg": 245.31e-6, "client-CPU-sec/msg": 61.3e-6, "queues-each": 1,
		"late-p50-sec": 0.004, "p90-sec": 0.008, "p99-sec": 0.008, "max-sec": 0.008,
		"lost-msg": 0, "twice-msg": 0, "early-msg": 0,
	}, results["BenchmarkAccuracy/subject=binaryladder_source/queues=quorum/messages=2"])
}
