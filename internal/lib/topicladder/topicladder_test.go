package topicladder_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/topicladder"
	"github.com/delayer-go/delayer/topology"
)

func TestLadder(t *testing.T) {
	l := topicladder.Ladder{
		Levels: 4, First: "~d.", Mark: "~", End: "end", Fallback: "lost",
		Exchange: func(level int) string { return fmt.Sprint("N", level) },
		Queue:    func(level int, next string) topology.Queue { return topology.Queue{Name: fmt.Sprint("Q", level, next)} },
	}
	require.Equal(t, "~d.~1.~0.~1.~0.work", l.Key(10, "work"))
	p := l.Plan()
	require.Equal(t, topology.Exchange{Name: "N3", Kind: "topic", Alternate: "lost"}, p.Exchanges[3])
	require.Equal(t, []topology.Binding{
		{Source: "N0", Key: "~d.*.*.*.~1.#", Target: "Q0end"},
		{Source: "N0", Key: "~d.*.*.*.~0.#", Target: "end", ToExchange: true},
		{Source: "N1", Key: "~d.*.*.~1.#", Target: "Q1N0"},
		{Source: "N1", Key: "~d.*.*.~0.#", Target: "N0", ToExchange: true},
	}, p.Bindings[:4])
	l.First, l.Mark = "", ""
	require.Equal(t, "1.0.1.0.work", l.Key(10, "work"))
	require.Equal(t, "*.*.*.1.#", l.Plan().Bindings[0].Key)
}
