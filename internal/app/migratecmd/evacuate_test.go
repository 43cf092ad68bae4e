package migratecmd

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
)

func TestProgressLine(t *testing.T) {
	a := evacuate.Account{Before: 1000, Moved: 250}
	assert.Equal(t, "250 of 1000 messages moved, 50/s, at most 15s left", progressLine(a, 5*time.Second))
	assert.Equal(t, "0 of 1000 messages moved", progressLine(evacuate.Account{Before: 1000}, time.Second))
	assert.Equal(t, "1 message of an earlier run published", progressLine(evacuate.Account{Found: 2, Published: 1}, time.Second))
}

func TestEvacuate_Account(t *testing.T) {
	var out strings.Builder
	after := 2
	err := (&evacuateCmd{Format: cli.Format{Output: "text"}}).print(&out, evacuate.Account{
		Before: 12, Moved: 8, Published: 7, After: &after, Refused: map[string]int{`exchange "x": unroutable`: 1},
	}, "delayer")
	require.NoError(t, err)
	assert.Equal(t, `MESSAGES  
12        were pending in the plugin
8         were moved out of it
7         were published through the Delayer
2         stay in the plugin, which delivers them when due
1         were refused, and are in the queue "delayer.migration.refused"; the next run tries them again
1: exchange "x": unroutable
`, out.String())
}
