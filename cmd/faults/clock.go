package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/process"
)

// The toolchain can build a program with another package time, whose Now adds an hour to the wall
// clock and leaves the monotonic clock as it is. This command is built so, and runs the campaign
// without any other fault.

// clockVariable is + if the clock of such a program is ahead, - if it is behind.
const clockVariable = "DELAYER_TEST_CLOCK"

const (
	nowBefore = "sec, nsec, mono := runtimeNow()\n"
	nowAfter  = nowBefore + "\tsec += wallShift\n"
	shiftFile = `package time

import "syscall"

var wallShift = func() int64 {
	switch sign, _ := syscall.Getenv("` + clockVariable + `"); sign {
	case "+":
		return 3600
	case "-":
		return -3600
	}
	return 0
}()
`
)

// clocks runs the campaign in programs whose wall clock is an hour off. The clocks of the broker
// and of separate controllers are right.
func (c *campaign) clocks(ctx context.Context, folder string) error {
	pattern, err := regexp.Compile(c.Fault)
	if err != nil {
		return err
	}
	for _, clock := range []struct{ sign, name string }{{"+", "clock an hour ahead"}, {"-", "clock an hour behind"}} {
		if !pattern.MatchString(clock.name) || os.Getenv(clockVariable) != "" {
			continue
		}
		program, err := buildWithShiftedClock(ctx, folder)
		if err != nil {
			return err
		}
		rows, err := c.inShiftedClock(ctx, program, clock.sign)
		if err != nil {
			return fmt.Errorf("%s: %w", clock.name, err)
		}
		for i := range rows {
			rows[i].Fault = clock.name
		}
		c.print(rows)
	}
	return c.write()
}

// buildWithShiftedClock builds this command with the other package time. It fails if the
// toolchain's Now is not written as expected.
func buildWithShiftedClock(ctx context.Context, folder string) (program string, err error) {
	program = filepath.Join(folder, "shifted")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
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
	shifted := strings.Replace(string(source), nowBefore, nowAfter, 1)
	replace := map[string]string{}
	for name, text := range map[string]string{"time.go": shifted, "shift.go": shiftFile} {
		here := filepath.Join(folder, "shifted-"+name)
		if err := os.WriteFile(here, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(pkg, name)] = here
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	said, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", program, "github.com/delayer-go/delayer/cmd/faults").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build -overlay: %w: %s", err, said)
	}
	return program, nil
}

// inShiftedClock returns the rows of the program with the wrong clock. It fails if it has none, or
// if what failed in it is no promise that a row tells of.
func (c *campaign) inShiftedClock(ctx context.Context, program, sign string) ([]faults.Row, error) {
	folder, err := os.MkdirTemp(filepath.Dir(program), "results")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--out="+folder, "--fault=^none$",
		fmt.Sprintf("--messages=%d", c.Messages), fmt.Sprintf("--rate=%d", c.Rate), "--backend="+c.Backend,
		fmt.Sprintf("--patience=%v", c.Patience), fmt.Sprintf("--seed=%d", c.Seed), fmt.Sprintf("--long=%v", c.Long),
		fmt.Sprintf("--redeliver=%v", c.Redeliver))
	cmd.Env = append(os.Environ(), clockVariable+"="+sign)
	process.DieWithParent(cmd)
	started := time.Now()
	said, failed := cmd.CombinedOutput()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("%w: %s", errors.Join(failed, err, errors.New("it has no results")), said)
	}
	s, err := readSeries(files[0])
	if err != nil {
		return nil, err
	}
	var seed uint64
	var began string
	if _, err := fmt.Sscanf(string(said), "seed %d, %s", &seed, &began); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	at, err := time.Parse(time.RFC3339, began)
	if off := at.Sub(started); err != nil || off.Abs() < time.Hour-time.Minute {
		return nil, errors.Join(fmt.Errorf("its clock was off by %v only", off), err)
	}
	broken := func(r faults.Row) bool { return len(r.Problems)+len(r.Slow) > 0 }
	if failed != nil && !slices.ContainsFunc(s.Results, broken) {
		return nil, fmt.Errorf("%w: %s", failed, said)
	}
	c.broker = cmp.Or(c.broker, s.Broker)
	return s.Results, nil
}
