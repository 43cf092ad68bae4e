//go:build race

package simulator

const raceDetector = true
