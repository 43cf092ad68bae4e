//go:build !linux

package brokertime

import "time"

// sinceBoot: Go has no such clock here.
func sinceBoot() (time.Duration, bool) { return 0, false }
