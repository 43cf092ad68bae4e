package binaryladder

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/delayer-go/delayer/topology"
)

// BenchmarkPlan is the part of a Publish that is ours alone: the steps of a delay, and their keys.
func BenchmarkPlan(b *testing.B) {
	for _, c := range []Config{{}, {Tick: time.Millisecond}, {Steps: Binary}, {Tick: time.Millisecond, Steps: Binary}} {
		c = c.withDefaults()
		l, err := c.ladder()
		if err != nil {
			b.Fatal(err)
		}
		for _, delay := range []time.Duration{9 * time.Second, 45 * time.Minute, 100*day + 9999*time.Second + 777*time.Millisecond} {
			name := fmt.Sprintf("steps=%s/tick=%v/delay=%v", c.Steps, c.Tick, delay)
			b.Run(name+"/part=plan", func(b *testing.B) {
				var steps [32]int16
				b.ReportAllocs()
				for b.Loop() {
					l.plan(steps[:0], delay)
				}
			})
			b.Run(name+"/part=keys", func(b *testing.B) {
				s := newLinks(blueprint{ladder: l, names: names{"p"}}, func(context.Context, topology.Plan) error { return nil })
				ctx := context.Background()
				var steps [32]int16
				var links [33]link
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Keys(ctx, route(links[:0], l.plan(steps[:0], delay)), 1, 1); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkLadder is what Open adds for the tables.
func BenchmarkLadder(b *testing.B) {
	for _, c := range []Config{{}, {Tick: time.Millisecond}} {
		b.Run(fmt.Sprintf("steps=%s/tick=%v", c.Steps, c.Tick), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.withDefaults().ladder(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
