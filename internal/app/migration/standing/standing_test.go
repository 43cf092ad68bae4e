package standing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

func TestCommands(t *testing.T) {
	const begin = "delayer migrate "
	for name, c := range map[string]struct {
		x    Exchange
		want []string
	}{
		"one of the plugin": {Exchange{Exchange: "orders"}, []string{
			begin + `assess --config delayer.yaml --rabbitmqctl "$R"`, begin + "prepare --config delayer.yaml --exchange=orders",
		}},
		"prepared":    {Exchange{Exchange: "-o'r $(x)", Step: record.Prepared}, []string{begin + `switch --config delayer.yaml --exchange='-o'\''r $(x)' --rabbitmqctl "$R" --mode in-place`}},
		"interrupted": {Exchange{Exchange: "o", Step: record.Switching, Mode: record.Serving}, []string{begin + `switch --config delayer.yaml --exchange=o --rabbitmqctl "$R" --mode serve`}},
		"switched": {Exchange{Exchange: "o", Step: record.Switched}, []string{
			begin + `drain --config delayer.yaml --exchange=o --rabbitmqctl "$R"`, begin + `retire --config delayer.yaml --exchange=o --rabbitmqctl "$R"`,
		}},
		"going back": {Exchange{Exchange: "o", Step: record.Restored}, []string{begin + `rollback --config delayer.yaml --exchange=o --rabbitmqctl "$R"`}},
		"busy":       {Exchange{Exchange: "queue q", Busy: true}, nil},
	} {
		require.Equal(t, c.want, c.x.Commands(), name)
	}
}

// TestWith: what is busy gets the name of its exchange, which its record does not tell then; what
// was given is not changed.
func TestWith(t *testing.T) {
	busy := &Exchange{Exchange: "queue q", Busy: true, queue: record.Queue("p", "b")}
	begun := []*Exchange{{Exchange: "a", Step: record.Prepared, queue: record.Queue("p", "a")}, busy}
	all := With(begun, "p", []inventory.Exchange{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	var names, next []string
	for _, x := range all {
		names, next = append(names, x.Exchange), append(next, x.Next)
	}
	require.Equal(t, []string{"a", "b", "c"}, names)
	require.Equal(t, []string{"", "", "prepare"}, next)
	require.Equal(t, "queue q", busy.Exchange)
	require.Len(t, With(begun, "p", nil), 2)
}
