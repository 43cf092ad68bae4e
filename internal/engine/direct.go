package engine

import "context"

// Direct is a [Strategy] that leads to the one destination that it has by itself: no delivery stage is declared for
// it, and nothing is bound.
type Direct interface {
	Strategy
	// Accept says why messages for an exchange cannot be taken.
	Accept(exchange string) error
	// Exists makes sure, give or take a tenth of a second, that the destination is there.
	Exists(ctx context.Context) error
}
