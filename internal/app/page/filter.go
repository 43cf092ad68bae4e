package page

import (
	"errors"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
)

// A filter says which messages of a queue somebody looks for. Its fields are as they were typed.
type filter struct {
	Exchange string // with * for any text, or defaultExchange
	Key      string // with * for any text
	Reason   string // a part of it
	Age      string // of those that have been here for at least so long
}

const defaultExchange = "(default)"

// filterOf is that of a request.
func filterOf(form url.Values) filter {
	field := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	return filter{field("exchange"), field("key"), field("reason"), field("age")}
}

// Any reports whether a filter leaves something out.
func (f filter) Any() bool { return f != filter{} }

// Fields are those of a form that are set.
func (f filter) Fields() map[string]string {
	fields := map[string]string{"exchange": f.Exchange, "key": f.Key, "reason": f.Reason, "age": f.Age}
	maps.DeleteFunc(fields, func(_, text string) bool { return text == "" })
	return fields
}

// Query is the filter in an address, after other parameters.
func (f filter) Query() string {
	v := url.Values{}
	for name, text := range f.Fields() {
		v.Set(name, text)
	}
	if len(v) == 0 {
		return ""
	}
	return "&" + v.Encode()
}

// String says it in words.
func (f filter) String() string {
	var parts []string
	for _, one := range [][2]string{{"exchange ", f.Exchange}, {"key ", f.Key}, {"reason with ", f.Reason}, {"here for at least ", f.Age}} {
		if one[1] != "" {
			parts = append(parts, one[0]+one[1])
		}
	}
	return strings.Join(parts, ", ")
}

// match returns what tells whether a message is one of those. why is asked only where the reason
// counts.
func (f filter) match(now time.Time) (func(m *item, why func() (string, error)) (bool, error), error) {
	var least cli.Delay
	if f.Age != "" && (least.UnmarshalText([]byte(f.Age)) != nil || least < 0) {
		return nil, errAge
	}
	exchange, key := entry.Matches([]string{f.Exchange}), entry.Matches([]string{f.Key})
	if f.Exchange == defaultExchange {
		exchange = func(name string) bool { return name == "" }
	}
	reason := strings.ToLower(f.Reason)
	return func(m *item, why func() (string, error)) (bool, error) {
		switch {
		case f.Exchange != "" && (!m.Known || !exchange(m.Exchange)),
			f.Key != "" && !key(m.Key),
			f.Age != "" && (m.Since.IsZero() || now.Sub(m.Since) < time.Duration(least)):
			return false, nil
		case reason == "":
			return true, nil
		}
		text, err := why()
		return strings.Contains(strings.ToLower(m.reason(text)), reason), err
	}, nil
}

var errAge = errors.New("an age is a number with a unit, such as 90s, 30m, 2h or 3d")

// reason is what the page says of why a message is here: with the last error, which tells most.
func (m *item) reason(why string) string {
	if m.Attempts != "" && !strings.Contains(why, m.Attempts) {
		why = m.Attempts + ", " + why
	}
	if m.Last != "" {
		why += ": " + m.Last
	}
	return why
}
