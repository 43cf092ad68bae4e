package binaryladder

import (
	"context"

	"github.com/delayer-go/delayer/internal/keeper"
	"github.com/delayer-go/delayer/internal/topology"
)

// newLinks are the links of a ladder, none of them declared.
func newLinks(b blueprint, declare func(context.Context, topology.Plan) error) *keeper.Links[link] {
	return keeper.NewLinks(keeper.LinkSpec[link]{
		Backend: Name, Count: b.ladder.links(), Index: b.ladder.index,
		Key: b.key, Needs: b.steps, Declare: declare,
	})
}

// links is one more than the highest index.
func (l ladder) links() int { return (l.levels + 1) * l.columns() }

func (l ladder) columns() int { return l.levels*l.base() + 1 }

// index numbers the links: a row for each place to leave, a column for each place to go.
func (l ladder) index(k link) int {
	column := 0
	if k.to.level != outside {
		column = 1 + k.to.level*l.base() + k.to.value
	}
	return (k.from+1)*l.columns() + column
}
