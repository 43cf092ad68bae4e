//go:build unix

package node

import (
	"os/exec"
	"syscall"
)

// own gives the command a process group of its own. Ctrl-C at the terminal then ends only this
// process, which finishes what it began; and what ends the command ends its children too.
func own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
