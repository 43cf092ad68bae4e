package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOutages goes through what is logged while connections are lost.
func TestOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Outages
		for range 2 { // one outage like the other
			require.True(t, o.began(time.Now()))
			require.False(t, o.began(time.Now()), "another connection, the same outage")
			lines := 0
			for range 600 { // ten minutes
				time.Sleep(time.Second)
				if o.lasts(time.Now()) {
					lines++
				}
			}
			require.Equal(t, 10, lines)
			require.False(t, o.ended())
			require.True(t, o.ended())
		}
		require.True(t, o.began(time.Now()))
		require.True(t, o.ended(), "a short one")
	})
}
