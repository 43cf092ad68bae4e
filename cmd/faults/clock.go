package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/delayer-go/delayer/internal/lab/faults"
)

// The toolchain can build a program with another package time. That of the command delayer has a
// Now that adds an hour to the wall clock, or takes one off, if the environment says so, and leaves
// the monotonic clock as it is.
const (
	nowBefore = "sec, nsec, mono := runtimeNow()\n"
	nowAfter  = nowBefore + "\tsec += wallShift\n"
	shiftFile = `package time

import "syscall"

var wallShift = func() int64 {
	switch sign, _ := syscall.Getenv("` + faults.ClockVariable + `"); sign {
	case "+":
		return 3600
	case "-":
		return -3600
	}
	return 0
}()
`
)

// buildCommand builds the command delayer with the other package time. It fails if the toolchain's
// Now is not written as expected.
func buildCommand(ctx context.Context, folder string) (command string, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	pkg := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(pkg, "time.go"))
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), nowBefore) != 1 {
		return "", errors.New("this toolchain's time.Now is not written as expected: the clock cannot be shifted")
	}
	files := map[string]string{"time.go": strings.Replace(string(source), nowBefore, nowAfter, 1), "shift.go": shiftFile}
	replace := map[string]string{}
	for name, text := range files {
		replace[filepath.Join(pkg, name)] = filepath.Join(folder, name)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	command = filepath.Join(folder, "delayer")
	said, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", command,
		"github.com/delayer-go/delayer/cmd/delayer").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build -overlay: %w: %s", err, said)
	}
	return command, nil
}
