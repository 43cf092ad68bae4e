//go:build !linux

package main

import "os/exec"

// dieWithParent does nothing on this system: a campaign that is killed may leave a controller.
func dieWithParent(*exec.Cmd) {}
