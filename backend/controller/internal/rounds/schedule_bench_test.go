package rounds

import (
	"testing"
	"time"
)

// BenchmarkPlan is the choice of a message's next queue, made after each of its hops.
func BenchmarkPlan(b *testing.B) {
	s, err := newSchedule(20, time.Second)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if s.next(9999*time.Second) != 13 { // 8192 s
			b.Fatal("wrong level")
		}
	}
}
