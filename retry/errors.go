package retry

import (
	"errors"
	"time"
)

// Permanent marks an error that no further attempt can fix: the message is parked at once.
// Permanent(nil) is nil. An error that has a method Permanent() bool returning true needs no mark; of
// joined errors the first that has such a method decides, as with [errors.As].
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
// longer than the backend or [Policy].MaxAge allows, the message is parked. A negative wait marks
// nothing. Of several marks the first counts, as with [errors.As]. After(nil, wait) is nil.
func After(err error, wait time.Duration) error {
	if err == nil || wait < 0 {
		return err
	}
	return &after{err, wait}
}

type after struct {
	error
	wait time.Duration
}

func (a *after) Unwrap() error { return a.error }

// isPermanent reports whether err parks the message at once.
func isPermanent(err error) (is bool) {
	defer func() { _ = recover() }() // an error whose method panics, as one of a nil pointer does, has no mark
	var mark interface{ Permanent() bool }
	return errors.As(err, &mark) && mark.Permanent()
}

// waitOf is the wait that err asks for.
func waitOf(err error) (wait time.Duration, asked bool) {
	defer func() { _ = recover() }()
	var mark *after
	if errors.As(err, &mark) {
		return mark.wait, true
	}
	return 0, false
}
