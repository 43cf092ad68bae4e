package faults

import (
	"context"
)

// Network does all that a network does to connections, one after the other and each a few times:
// for a campaign that has no time for each alone. Half-open ones are ended by a FIN here instead of
// a missed heartbeat.
func Network(ctx context.Context, s *Scene) error {
	for _, f := range []func(context.Context, *Scene) error{cut, resetMidFrame, slow, halfOpen} {
		if err := f(ctx, s); err != nil {
			return err
		}
		s.Proxy.Cut()
		s.mended()
		if err := s.work(ctx, 5); err != nil {
			return err
		}
	}
	return nil
}
