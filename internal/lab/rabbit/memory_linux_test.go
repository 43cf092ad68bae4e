package rabbit

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNodesAreInMemoryOnlyWhereAskedAndWithRoom(t *testing.T) {
	assert.Empty(t, nodeRoot(false))
	want := ""
	if freeBytes(sharedMemory) >= roomInMemory {
		want = sharedMemory
	}
	assert.Equal(t, want, nodeRoot(true))
}

func TestFreeBytes(t *testing.T) {
	folder := t.TempDir()
	assert.Positive(t, freeBytes(folder))
	assert.Zero(t, freeBytes(filepath.Join(folder, "missing")))
}
