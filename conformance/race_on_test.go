//go:build race

package conformance_test

// raceDetector says that a data race fails the test that has it.
const raceDetector = true
