//go:build unix && !linux

package rabbit

// isPaused: the signal is taken to have worked at once. Only Linux has a /proc that tells.
func isPaused(int) bool { return true }
