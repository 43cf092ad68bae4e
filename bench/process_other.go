//go:build !unix

package bench

import "time"

// processCPU is not measured here.
func processCPU() (used time.Duration, ok bool) { return 0, false }
