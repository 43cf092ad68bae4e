package fixedtiers

import (
	"testing"
	"time"
)

// BenchmarkPlan is the choice of a tier, of a hundred.
func BenchmarkPlan(b *testing.B) {
	tiers := make([]time.Duration, maxTiers)
	for i := range tiers {
		tiers[i] = time.Duration(i+1) * time.Minute
	}
	plan := blueprint{tiers: tiers}
	b.ReportAllocs()
	for b.Loop() {
		if plan.next(67*time.Minute+time.Second) != 67 {
			b.Fatal("wrong tier")
		}
	}
}
