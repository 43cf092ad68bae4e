package watermilldelay

import (
	"fmt"

	"github.com/delayer-go/delayer"
)

// A MessagesError is the error of several messages of which some failed.
//
// If others are stored, it matches [delayer.ErrUnknown], and [delayer.SafeToRetry] is false:
// publishing all messages again would deliver those twice.
type MessagesError struct {
	// Results has the result of each message: nil if the broker has confirmed it.
	Results []error
}

// summarize returns nil if all messages are stored.
func summarize(results []error) error {
	e := &MessagesError{results}
	switch failed := e.Unwrap(); {
	case len(failed) == 0:
		return nil
	case len(results) == 1:
		return failed[0]
	}
	return e
}

// Error has the first error, and says how many messages are stored.
func (e *MessagesError) Error() string {
	failed := e.Unwrap()
	return fmt.Sprintf("%v (%d of %d messages are stored)", failed[0], len(e.Results)-len(failed), len(e.Results))
}

// Unwrap returns the errors, for errors.Is and errors.As.
func (e *MessagesError) Unwrap() []error {
	var failed []error
	for _, err := range e.Results {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// Is reports whether e is [delayer.ErrUnknown] because some messages are stored.
func (e *MessagesError) Is(target error) bool {
	return target == delayer.ErrUnknown && len(e.Unwrap()) < len(e.Results)
}
