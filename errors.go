package delayer

import (
	"errors"
	"strings"
)

// What went wrong, by errors.Is. Each error that a Delayer returns is an *[Error] of one of these kinds.
// Every kind but [ErrUnknown] means that the message is certainly not stored.
var (
	// ErrInvalid: the message or its address cannot be published as it is; the same call will fail again.
	ErrInvalid = errors.New("invalid message")
	// ErrOutOfRange: the delay is negative, longer than [Limits].Max, or no tier.
	ErrOutOfRange = errors.New("delay out of range")
	// ErrUnroutable: the destination exchange or queue does not exist, or, for a message without delay,
	// nothing is bound there for its key.
	ErrUnroutable = errors.New("unroutable")
	// ErrRefused: the broker took the message and refused it (a nack, as from a full queue).
	ErrRefused = errors.New("refused by the broker")
	// ErrNotSent: the message did not leave this process: ctx ended first, or no connection could be had.
	ErrNotSent = errors.New("not sent")
	// ErrUnknown: the connection was lost or ctx ended after the message was sent and before it was
	// confirmed. It may be stored, or not.
	ErrUnknown = errors.New("outcome unknown")
	// ErrClosed: the Delayer is closed.
	ErrClosed = errors.New("closed")
	// ErrConfig: the configuration is wrong; the error names the key and what would be right.
	ErrConfig = errors.New("invalid configuration")
	// ErrConflict: an exchange or queue of our name exists with other arguments, or belongs to a Delayer
	// with another configuration.
	ErrConflict = errors.New("conflicts with what the broker holds")
	// ErrAccess: the broker refused the credentials, or the user lacks a permission.
	ErrAccess = errors.New("access refused")
	// ErrUnavailable: the broker could not be reached, or cannot offer what the backend needs.
	ErrUnavailable = errors.New("broker unavailable")
)

// An Error says which operation failed, on what, why, and what to do about it. It never contains
// credentials.
type Error struct {
	Op      string // what was being done: "publish", "open", "declare", "close", …
	Backend string // the backend's name as in the configuration, or ""
	Object  string // what it was done to: a destination, a queue, a configuration key; or ""
	Kind    error  // one of the Err… of this package
	Cause   error  // the underlying error, or nil
	Hint    string // what to do about it, or ""
}

// Error returns "operation backend object: kind: cause (hint)", without the parts that are empty.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("delayer: ")
	b.WriteString(e.Op)
	for _, part := range []string{e.Backend, e.Object} {
		if part != "" {
			b.WriteString(" ")
			b.WriteString(part)
		}
	}
	for _, err := range []error{e.Kind, e.Cause} {
		if err != nil {
			b.WriteString(": ")
			b.WriteString(err.Error())
		}
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap makes errors.Is and errors.As see both the kind and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Kind, e.Cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// SafeToRetry reports whether err guarantees that the message was not stored, so that publishing it
// again cannot deliver it twice. It says nothing about whether a second attempt would succeed: one that
// was [ErrInvalid] will be so again. It is false for nil, and for an error that is not of this package.
func SafeToRetry(err error) bool {
	var e *Error
	return errors.As(err, &e) && !errors.Is(err, ErrUnknown)
}
