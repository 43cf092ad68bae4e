package retry

import "time"

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
// ignored. Of joined errors the longest wait counts. After(nil, wait) is nil.
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

// IsPermanent reports whether err parks the message at once. Joined errors do if one of them does.
func IsPermanent(err error) bool {
	is := false
	marks(err, func(err error) bool {
		p, ok := any(err).(interface{ Permanent() bool })
		is = is || ok && p.Permanent()
		return ok
	})
	return is
}

// waitOf is the wait that err asks for. Of joined errors, the longest counts.
func waitOf(err error) (wait time.Duration, asked bool) {
	marks(err, func(err error) bool {
		a, ok := any(err).(*after)
		ok = ok && a.wait >= 0
		if ok {
			wait, asked = max(wait, a.wait), true
		}
		return ok
	})
	return wait, asked
}

// marks calls decides for err and for those that it wraps. An error that decides speaks for all
// that it wraps; of joined errors each is asked. errors.As ends at the first, whatever it says. An
// error whose method panics, as one of a nil pointer does, has no mark.
func marks(err error, decides func(error) bool) {
	defer func() { _ = recover() }()
	if err == nil || decides(err) {
		return
	}
	switch u := any(err).(type) {
	case interface{ Unwrap() error }:
		marks(u.Unwrap(), decides)
	case interface{ Unwrap() []error }:
		for _, one := range u.Unwrap() {
			marks(one, decides)
		}
	}
}
