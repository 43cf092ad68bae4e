package delayer

import (
	"errors"
	"strconv"
)

// A Toggle is On, Off, or the default of its field, which is its zero value. In text it is written true
// or false.
type Toggle uint8

// The values of a Toggle beside its zero value.
const (
	On Toggle = 1 + iota
	Off
)

// Enabled says whether the toggle is On, where it is On by default.
func (t Toggle) Enabled() bool { return t != Off }

// UnmarshalText reads true or false.
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

// MarshalText writes what UnmarshalText reads, and nothing for the default.
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
