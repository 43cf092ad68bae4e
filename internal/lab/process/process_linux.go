// Package process is about the processes that tests and campaigns start.
package process

import (
	"os/exec"
	"syscall"
)

// DieWithParent makes the kernel kill the process when this one ends. It does so on Linux alone:
// elsewhere a test or a campaign that is killed may leave processes.
func DieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
