//go:build !unix

package faults

import "os"

// There is no pausing a process here: to signal these is an error.
var sigstop, sigcont os.Signal = os.Interrupt, os.Interrupt
