package bench

// The tests run many benchmarks: with the race detector each would measure the generator for a
// second.
func init() { generated = 1000 }
