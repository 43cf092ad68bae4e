package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestMaxPriority(t *testing.T) {
	for _, c := range []struct {
		version string
		kind    delayer.QueueType
		want    uint8
	}{
		{"3.10.8", delayer.Quorum, 255},
		{"3.13.7", delayer.Quorum, 255},
		{"4.0.5", delayer.Quorum, 4},
		{"4.2.0-rc.1", delayer.Quorum, 4},
		{"4.3.6", delayer.Quorum, 255},
		{"4.10.0", delayer.Quorum, 255},
		{"5.0.0", delayer.Quorum, 255},
		{"4.0.5", delayer.Classic, 255},
		{"", delayer.Quorum, 255},
	} {
		require.Equal(t, c.want, maxPriority(c.version, c.kind), "%s %s", c.version, c.kind)
	}
}
