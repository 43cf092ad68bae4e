//go:build !linux

package rabbit

// nodeRoot is the system's folder for temporary files: others than Linux have none in memory.
func nodeRoot(bool) string { return "" }
