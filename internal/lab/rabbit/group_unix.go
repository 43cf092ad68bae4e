//go:build unix

package rabbit

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a process in a group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
