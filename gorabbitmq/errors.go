package gorabbitmq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/delayer-go/delayer"
)

var errNoKey = errors.New("there is no routing key, so nothing would be published")

// invalid is the error for a message that cannot be published.
func invalid(exchange string, cause error) error {
	return &delayer.Error{
		Op: "publish", Object: fmt.Sprintf("to exchange %q", exchange), Kind: delayer.ErrInvalid, Cause: cause,
	}
}

// A KeysError is the error of a message for several routing keys. Each of its errors names its key.
//
// If Stored is not empty, it matches [delayer.ErrUnknown], and [delayer.SafeToRetry] is false:
// publishing for all keys again would deliver the message twice for those.
type KeysError struct {
	Stored []string // the keys for which the broker has confirmed the message
	Errors []error
}

// Error lists the errors, and the keys for which the message is stored.
func (e *KeysError) Error() string {
	texts := make([]string, len(e.Errors))
	for i, err := range e.Errors {
		texts[i] = err.Error()
	}
	stored := "for none of the keys"
	if len(e.Stored) > 0 {
		stored = fmt.Sprintf("for %q", e.Stored)
	}
	return fmt.Sprintf("%s (the message is stored %s)", strings.Join(texts, "; "), stored)
}

// Unwrap returns the errors, for errors.Is and errors.As.
func (e *KeysError) Unwrap() []error { return e.Errors }

// Is reports whether e is [delayer.ErrUnknown] because the message is stored for some keys.
func (e *KeysError) Is(target error) bool {
	return target == delayer.ErrUnknown && len(e.Stored) > 0
}
