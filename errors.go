package delayer

import "errors"

// The kinds of errors, for errors.Is. Each error of a Delayer is an *[Error] of one of these kinds,
// or of the kind [errors.ErrUnsupported]: this backend cannot do it, and nothing was sent. An error
// that is not [ErrUnknown] guarantees that the message was not stored. One error can be of two
// kinds: see [ErrRefused].
var (
	// ErrInvalid means that the message or its address cannot be published. The same call will fail
	// again.
	ErrInvalid = errors.New("invalid message")
	// ErrOutOfRange means that the delay is negative, longer than [Limits].Max, or not a tier; or
	// that Postpone would make a message earlier.
	ErrOutOfRange = errors.New("delay out of range")
	// ErrUnroutable means that the destination does not exist. For a message without a delay it
	// also means that nothing is bound there for its key.
	ErrUnroutable = errors.New("unroutable")
	// ErrRefused means that the broker refused the message with a nack, as it does if a queue is
	// full. One queue is enough for that, and others of the same exchange, or of CC and BCC, may
	// have stored the message. So the error is ErrUnknown too, except for a delayed message of a
	// [Delayer] with quorum queues: it waits in one queue, and was not stored.
	ErrRefused = errors.New("refused by the broker")
	// ErrNotSent means that the message did not leave this process: ctx ended first, or there was
	// no connection.
	ErrNotSent = errors.New("not sent")
	// ErrUnknown means that the message may be stored: the connection was lost, or ctx ended, after
	// it was sent and before it was confirmed; or one of several queues refused it.
	ErrUnknown = errors.New("outcome unknown")
	// ErrClosed means that the Delayer is closed.
	ErrClosed = errors.New("closed")
	// ErrConfig means that the configuration is wrong. The error names the key and what is allowed.
	ErrConfig = errors.New("invalid configuration")
	// ErrConflict means that an exchange or queue of the same name has other arguments or belongs
	// to a Delayer with another configuration, or that a policy would make messages early or lose
	// them. Publish returns it for messages with a delay, until that is fixed.
	ErrConflict = errors.New("conflicts with what the broker holds")
	// ErrAccess means that the broker refused the credentials, or that the user lacks a permission.
	ErrAccess = errors.New("access refused")
	// ErrUnavailable means that the broker, or its management API, cannot be reached or does not
	// answer.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrNotFound means that the broker answers and lacks what is asked for: a queue that a command
	// names, the topology of a prefix that is not declared by the program, a virtual host, a feature
	// flag, or the exchange type of a plugin. The destination of a message is [ErrUnroutable].
	ErrNotFound = errors.New("not found")
	// ErrTooLate means that a message cannot be cancelled or postponed by this ticket any more: by
	// that it is due in less than [Limits].CancelBefore, or was due before. It is delivered, or
	// was, unless another call has cancelled or postponed it.
	ErrTooLate = errors.New("too late")
	// ErrTicket means that a text is no [Ticket] of this Delayer: it is damaged, or of another
	// prefix.
	ErrTicket = errors.New("not a ticket of this Delayer")
)

// An Error tells which operation failed, on which object, why, and what to do about it. It never
// contains credentials.
type Error struct {
	Op      string // the operation: "publish", "open", "declare", "close", …
	Backend string // the backend's name as in the configuration, or ""
	Object  string // a destination, a queue or a configuration key; or ""
	Kind    error  // one of the Err… of this package, or errors.ErrUnsupported
	Cause   error  // the underlying error, or nil
	Hint    string // what to do about it, or ""
}

// Error returns "delayer: operation backend object: kind: cause (hint)", without empty parts.
func (e *Error) Error() string {
	text := "delayer"
	separator := ": "
	for _, part := range []string{e.Op, e.Backend, e.Object} {
		if part != "" {
			text += separator + part
			separator = " "
		}
	}
	for _, err := range []error{e.Kind, e.Cause} {
		if err != nil {
			text += ": " + err.Error()
		}
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the kind and the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Kind, e.Cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// SafeToRetry reports whether err guarantees that the message was not stored. Publishing it again
// then cannot deliver it twice. Whether another attempt would succeed is a different question: one
// that failed with [ErrInvalid] fails again. It is false for nil, and for errors that are not of
// this package.
func SafeToRetry(err error) bool {
	var e *Error
	return errors.As(err, &e) && !errors.Is(err, ErrUnknown)
}
