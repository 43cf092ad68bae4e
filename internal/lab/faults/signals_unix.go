//go:build unix

package faults

import "syscall"

const (
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
)
