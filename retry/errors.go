package retry

import (
	"errors"
	"time"
)

// Permanent marks an error that no further attempt can mend: the message is parked at once. It is nil
// for nil. An error with a method Permanent() bool that returns true needs no mark, such as package
// once's for a message without an id.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error   { return p.error }
func (p *permanent) Permanent() bool { return true }

// After marks an error with the wait before the next attempt, as a Retry-After header asks for it; it
// replaces the policy's interval. A wait between two delays of the backend is rounded up; one that is
// longer than the backend or [Policy].MaxAge allow parks the message. A negative wait is none: the
// policy's interval holds. It is nil for nil.
func After(err error, wait time.Duration) error {
	if err == nil {
		return nil
	}
	return &after{err, wait}
}

type after struct {
	error
	wait time.Duration
}

func (a *after) Unwrap() error { return a.error }

// IsPermanent reports whether the message will be parked at once because of err.
func IsPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// waitOf is the wait that err asks for.
func waitOf(err error) (time.Duration, bool) {
	var a *after
	if !errors.As(err, &a) || a.wait < 0 {
		return 0, false
	}
	return a.wait, true
}
