package rabbit

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	p, err := parseStat("42 (a (b) c) S 7 42 42 0 -1 0 1 2 3 4 100 20 3 1 20 0 1 0 5 999 10 0 0")
	require.NoError(t, err)
	assert.Equal(t, process{pid: 42, parent: 7, usage: usage{
		cpu: 1240 * time.Millisecond, rss: 10 * int64(os.Getpagesize()),
	}}, p)
	for _, bad := range []string{"", "42 a S 7", "42 (a) S 7", "x (a) S 7 42 42 0 -1 0 1 2 3 4 1 2 3 1 20 0 1 0 5 999 10 0"} {
		_, err := parseStat(bad)
		assert.Error(t, err, bad)
	}
}

func TestDescendants(t *testing.T) {
	all := []process{{pid: 5, parent: 4}, {pid: 4, parent: 2}, {pid: 2, parent: 1}, {pid: 3, parent: 1}}
	var pids []int
	for _, p := range descendants(all, 2) {
		pids = append(pids, p.pid)
	}
	assert.Equal(t, []int{2, 4, 5}, pids)
}

func TestUsageOfAProcessThatIsNot(t *testing.T) {
	_, err := treeUsage(-1)
	assert.Error(t, err)
	own, err := treeUsage(os.Getpid())
	require.NoError(t, err)
	assert.Positive(t, own.rss)
}
