//go:build !linux

package main

import "os/exec"

// dieWithParent does nothing on this system: a demo that is killed may leave processes.
func dieWithParent(*exec.Cmd) {}
