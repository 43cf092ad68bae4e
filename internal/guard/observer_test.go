package guard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// TestGuard_ObserverSeesEachChange, and the end of a fault that stands when the Delayer closes.
func TestGuard_ObserverSeesEachChange(t *testing.T) {
	for name, h := range harms {
		t.Run(name, func(t *testing.T) {
			var s *scene
			play(t, func(_ *testing.T, playing *scene) {
				s = playing
				s.set(h.set)
				after(long)
				s.set(h.clear)
				after(time.Hour)
				s.set(h.set)
				after(long)
			})
			require.Len(t, s.changes, 4)
			for i, c := range s.changes {
				found := i%2 == 0
				require.Equal(t, []bool{!found, found}, []bool{c.Was != nil, c.Now != nil}, "change %d", i)
				require.Equal(t, "test", c.Backend)
				if found {
					require.ErrorIs(t, c.Now, delayer.ErrConflict)
				}
			}
		})
	}
}
