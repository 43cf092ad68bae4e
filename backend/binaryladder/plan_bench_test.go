package binaryladder

import (
	"context"
	"testing"
	"time"

	"github.com/delayer-go/delayer/internal/topology"
)

// BenchmarkPlan is the part of a Publish that is ours alone: the hops of a delay, and their keys.
func BenchmarkPlan(b *testing.B) {
	for name, l := range map[string]ladder{"bits=1": {28, 1, time.Second}, "bits=6": {6, 6, time.Millisecond}} {
		b.Run(name, func(b *testing.B) {
			s := newLinks(blueprint{ladder: l, names: names{"p"}}, func(context.Context, topology.Plan) error { return nil })
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Keys(ctx, itinerary(l.hops(9999*time.Second)), 1, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
