package delayer

import (
	"errors"
	"strconv"
)

// A Toggle is On or Off. Its zero value means the default of its field. In text it is true or
// false.
type Toggle uint8

// The values of a Toggle.
const (
	On Toggle = 1 + iota
	Off
)

// Enabled reports whether a toggle whose default is On is on.
func (t Toggle) Enabled() bool { return t != Off }

// UnmarshalText reads true or false, in the forms that strconv.ParseBool takes.
func (t *Toggle) UnmarshalText(text []byte) error {
	on, err := strconv.ParseBool(string(text))
	if err != nil {
		return errors.New(strconv.Quote(string(text)) + " is neither true nor false")
	}
	*t = Off
	if on {
		*t = On
	}
	return nil
}

// MarshalText writes true or false, and nothing for the default.
func (t Toggle) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// String returns true, false, or nothing for the default.
func (t Toggle) String() string {
	switch t {
	case On:
		return "true"
	case Off:
		return "false"
	}
	return ""
}
