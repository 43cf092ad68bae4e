package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the process when this one ends, however it ends.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
