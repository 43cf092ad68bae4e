//go:build !linux

package process

import "os/exec"

// DieWithParent does nothing on this system.
func DieWithParent(*exec.Cmd) {}
