package plugin

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAwait(t *testing.T) {
	for delay, want := range map[time.Duration]int64{
		1:                              2,
		time.Millisecond:               2,
		time.Millisecond + 1:           3,
		time.Hour:                      3_600_001,
		longest - time.Millisecond:     math.MaxUint32,
		longest - time.Millisecond + 1: math.MaxUint32,
		longest - 2*time.Millisecond:   math.MaxUint32 - 1,
		longest:                        math.MaxUint32,
	} {
		began := time.Now()
		headers, err := await(t.Context(), delay)
		require.NoError(t, err)
		require.Equal(t, want, headers["x-delay"], "%v", delay)
		if short := time.Duration(want)*time.Millisecond < delay+time.Millisecond; short {
			require.GreaterOrEqual(t, time.Since(began), time.Millisecond, "%v: the missing millisecond is waited for", delay)
		}
	}
}
