package retry

import (
	"errors"
	"time"
)

// Permanent marks an error that no further attempt can mend: the message is parked at once.
// Permanent(nil) is nil. An error that has a method Permanent() bool returning true needs no mark.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error   { return p.error }
func (p *permanent) Permanent() bool { return true }

// After marks an error with the wait before the next attempt, in place of the policy's interval, as
// a Retry-After header asks for it. The wait is rounded up to a delay of the backend. If it is
// longer than the backend or [Policy].MaxAge allows, the message is parked. A negative wait is
// ignored. After(nil, wait) is nil.
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

// IsPermanent reports whether err parks the message at once.
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
