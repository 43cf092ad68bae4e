package rabbit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestDiskIsThatOfTheData(t *testing.T) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		_, err := b.Disk()
		require.ErrorIs(t, err, rabbit.ErrNotOwned)
		return
	}
	bytes, err := b.Disk()
	require.NoError(t, err)
	assert.Greater(t, bytes, int64(10<<10), "a broker alone takes more")
	assert.Less(t, bytes, int64(1<<30))
}
