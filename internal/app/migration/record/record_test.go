package record_test

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// TestOf: a marker says again what was recorded, whatever the names are made of.
func TestOf(t *testing.T) {
	x := inventory.Exchange{
		Name: "o \"x\" \xff", AutoDelete: true, Internal: true, Arguments: amqp091.Table{"x-delayed-type": "topic", "alternate-exchange": "é"},
	}
	r := record.New(x, record.Serving)
	m, err := r.Marker("p")
	require.NoError(t, err)
	found := inventory.Exchange{Name: m.Name, Arguments: amqp091.Table{"alternate-exchange": m.Alternate}}
	got, is, err := record.Of("p", found)
	require.NoError(t, err)
	require.True(t, is)
	require.Equal(t, r, got)
	require.Equal(t, record.Record{
		Exchange: "o \"x\" \xff", Mode: record.Serving, Type: "topic", AutoDelete: true, Internal: true, Alternate: "é", Target: "o \"x\" \xff.delivery",
	}, got)

	for _, other := range []inventory.Exchange{{Name: "p.migration.x"}, {Name: "x", Arguments: found.Arguments}} {
		_, is, err = record.Of("p", other)
		require.NoError(t, err)
		require.False(t, is)
	}
	found.Name += "0"
	_, _, err = record.Of("p", found)
	require.ErrorContains(t, err, "is no record")
}
