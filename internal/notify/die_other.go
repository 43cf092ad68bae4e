//go:build !linux

package notify

import "os/exec"

// dieWithParent does nothing on this system: a campaign that is killed may leave processes.
func dieWithParent(*exec.Cmd) {}
