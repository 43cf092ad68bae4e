package bench

import (
	"testing"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// The tests run many benchmarks: with the race detector each would measure the generator for a
// second.
func init() { generated = 1000 }

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }
