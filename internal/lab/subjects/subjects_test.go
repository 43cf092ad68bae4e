package subjects_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/subjects"
)

func TestOthers(t *testing.T) {
	found := map[string]bool{}
	for _, s := range subjects.Others() {
		found[s.Config.Backend] = true
	}
	for _, name := range backend.Names() {
		require.True(t, found[name], "%s: a backend with its defaults can be tried", name)
	}
	rest := subjects.Others(backend.Config{}, backend.Config{Backend: "controller"})
	names := make([]string, len(rest))
	for i, s := range rest {
		names[i] = s.Name
	}
	require.Equal(t, []string{"fixedtiers/quorum", "fixedtiers/classic", "native/quorum", "plugin"}, slices.Clip(names))
}
