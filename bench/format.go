package bench

import (
	"time"

	"github.com/delayer-go/delayer/bench/internal/format"
)

// span writes a range of delays: "1s–15s".
func span(from, to time.Duration) string {
	if from == to {
		return from.String()
	}
	return from.String() + "–" + to.String()
}

// pace writes a rate of publishing.
func pace(rate float64) string {
	if rate <= 0 {
		return "as fast as confirmed"
	}
	return format.Figure(rate) + "/s"
}
