package rabbit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrNoClock means that the broker's clock is the machine's: it was not started with
// [Options].Clock.
var ErrNoClock = errors.New("the broker's clock cannot be put forward")

// A clock is that of a node under libfaketime, which reads in a file how far it is ahead of the
// machine's. It has neither heartbeats (see url) nor a consumer_timeout: a step would be one.
type clock struct {
	library, file string
	ahead         atomic.Int64 // nanoseconds
}

// clockArgs are for a node whose clock is put forward by days: nothing that takes milliseconds may
// seem to have taken too long.
var clockArgs = strings.Join([]string{
	"+S 1:1", // Forward asks the VM something, which wakes a scheduler: this one
	// Without it the VM takes a step for the beginning of a drift and corrects it, at up to 1 % of
	// the steps that follow. So erlang:system_time, by which a quorum queue reckons, was seconds
	// behind or ahead of this clock.
	"+c false",
	"-rabbit heartbeat 0", // the client asks for the same: see url
	"-rabbit consumer_timeout undefined",
	"-rabbit quorum_tick_interval 3600000", // each step is a tick of each queue
	DeadLetterRetry(40 * 24 * time.Hour),   // Erlang's timers count to 49 days
}, " ")

// faketimeFolders are where the packages of Debian, Fedora and Alpine have the library.
var faketimeFolders = []string{"/usr/lib/*/faketime", "/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime"}

// newClock returns a clock that is ahead by nothing. Without libfaketime the error matches
// [ErrNone].
func newClock(folder string) (*clock, error) {
	for _, in := range faketimeFolders {
		if found, _ := filepath.Glob(filepath.Join(in, "libfaketimeMT.so.1")); len(found) > 0 {
			c := &clock{library: found[0], file: filepath.Join(folder, "clock")}
			return c, os.WriteFile(c.file, []byte("+0\n"), 0o600)
		}
	}
	return nil, missing("no libfaketime on this machine (type: make install-faketime)")
}

// prepare writes the file that is to replace the clock's.
func (c *clock) prepare() error {
	text := "+" + strconv.FormatFloat(time.Duration(c.ahead.Load()).Seconds(), 'f', 9, 64) + "\n"
	if err := os.WriteFile(c.file+next, []byte(text), 0o600); err != nil {
		return fmt.Errorf("rabbit: the node's clock: %w", err)
	}
	return nil
}

// next ends the name of the file that is to replace the clock's.
const next = ".next"

// stepping makes the VM itself replace the file. It does so between two stretches in which the VM
// has nothing else to do: a message on its way from queue to queue would seem to need a year for
// that, and what became due has moved on when it returns.
//
//go:embed step.erl
var stepping string

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Now is what the broker's clock shows: the machine's time, if it was not put forward.
func (b *Broker) Now() time.Time {
	if b.own != nil && b.own.clock != nil {
		return b.own.clock.now()
	}
	return time.Now()
}

// Forward puts the clock of a broker that was started with [Options].Clock forward by d, as if so
// much time had passed at once, and returns when the broker has done what became due. One caller at
// a time.
func (b *Broker) Forward(ctx context.Context, d time.Duration) error {
	if b.own == nil || b.own.clock == nil {
		return ErrNoClock
	}
	c := b.own.clock
	c.ahead.Add(int64(d)) // before the broker can show it: Now is never behind
	shall := c.now()
	if err := c.prepare(); err != nil {
		return err
	}
	said, err := b.Ctl(ctx, "eval", fmt.Sprintf(stepping, c.file+next, c.file))
	if err != nil {
		return err
	}
	shows, err := strconv.ParseInt(strings.TrimSpace(said), 10, 64)
	if err != nil || shows < shall.UnixMilli() {
		return fmt.Errorf("rabbit: the node's clock shows %q after a step to %d: does libfaketime work here?", said, shall.UnixMilli())
	}
	return nil
}
