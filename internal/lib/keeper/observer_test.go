package keeper

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

func TestKeeper_Observer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deleted []delayer.DeletedEvent
		var redeclared []delayer.RedeclareEvent
		o := &fakeBroker{}
		k := New(Config{
			Backend: "test", Log: slog.New(slog.DiscardHandler), Objects: o,
			Topology: topology.Plan{Queues: []topology.Queue{{Name: "q"}}},
			Observer: delayer.Observer{
				Deleted:    func(e delayer.DeletedEvent) { deleted = append(deleted, e) },
				Redeclared: func(e delayer.RedeclareEvent) { redeclared = append(redeclared, e) },
			},
		})
		require.NoError(t, k.Open(t.Context()))
		k.Expect(0)
		require.NoError(t, k.Ensure(t.Context()))
		require.Empty(t, redeclared, "the first declaration, and none, are not again")

		o.set(func() { o.has = false })
		k.repair(t.Context(), true)
		require.Equal(t, []delayer.DeletedEvent{{Backend: "test", Objects: []string{`queue "q"`}}}, deleted)
		require.Equal(t, []delayer.RedeclareEvent{{Backend: "test"}}, redeclared)

		down := errors.New("no connection")
		o.set(func() { o.fail = down })
		k.Doubt()
		require.Error(t, k.Ensure(t.Context()))
		require.Equal(t, delayer.RedeclareEvent{Backend: "test", Err: down}, redeclared[1])
		require.Len(t, deleted, 1)
	})
}
