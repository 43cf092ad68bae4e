package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/topology"
)

func TestMaxPriority(t *testing.T) {
	for _, c := range []struct {
		version string
		kind    topology.QueueType
		want    uint8
	}{
		{"3.10.8", topology.Quorum, 255},
		{"3.13.7", topology.Quorum, 255},
		{"4.0.5", topology.Quorum, 4},
		{"4.2.0-rc.1", topology.Quorum, 4},
		{"4.3.6", topology.Quorum, 255},
		{"4.10.0", topology.Quorum, 255},
		{"5.0.0", topology.Quorum, 255},
		{"4.0.5", topology.Classic, 255},
		{"", topology.Quorum, 255},
	} {
		require.Equal(t, c.want, maxPriority(c.version, c.kind), "%s %s", c.version, c.kind)
	}
}
