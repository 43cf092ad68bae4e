//go:build !linux

package main

import "os/exec"

// dieWithParent: there is no such wish here; a campaign that is killed may leave a controller.
func dieWithParent(*exec.Cmd) {}
