package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/delayer-go/delayer/status"
)

// A condition compares a number of a status, as in unroutable>0.
type condition struct {
	text, name, op string
	number         int
}

// numbers are what conditions know. ok is false for what is not known.
var numbers = map[string]func(status.Status) (n int, ok bool){
	"waiting": func(s status.Status) (int, bool) { return given(s.Waiting) },
	"held": func(s status.Status) (int, bool) {
		return overBackends(s, func(b status.Backend) *int { return b.Held })
	},
	"controllers": func(s status.Status) (int, bool) {
		return overBackends(s, func(b status.Backend) *int { return b.Controllers })
	},
	"overdue": func(s status.Status) (int, bool) {
		return overBackends(s, func(b status.Backend) *int { n, _ := b.Overdue(s.Time); return n })
	},
	"missing": func(s status.Status) (int, bool) {
		return overBackends(s, func(b status.Backend) *int { n := len(b.Missing); return &n })
	},
	"misrouted":  func(s status.Status) (int, bool) { return inQueue(s.Misrouted), true },
	"unroutable": func(s status.Status) (int, bool) { return inQueue(s.Unroutable), true },
	"parked":     func(s status.Status) (int, bool) { return inQueues(s.Parked), s.Parked != nil },
	"others":     func(s status.Status) (int, bool) { return inQueues(s.Others), s.Others != nil },
	"policies":   func(s status.Status) (int, bool) { return len(s.Policies), s.Policies != nil },
}

// numberNames lists them for people.
func numberNames() string { return strings.Join(slices.Sorted(maps.Keys(numbers)), ", ") }

func given(n *int) (int, bool) {
	if n == nil {
		return 0, false
	}
	return *n, true
}

// overBackends adds up a number of the backends. Of those that need no controllers it has none.
func overBackends(s status.Status, of func(status.Backend) *int) (sum int, ok bool) {
	for _, b := range s.Backends {
		switch n := of(b); {
		case n != nil:
			sum += *n
		case b.Controllers != nil:
			return 0, false
		}
	}
	return sum, true
}

func inQueue(q *status.Queue) int {
	if q == nil {
		return 0
	}
	return q.Messages
}

func inQueues(list []status.Queue) (sum int) {
	for _, q := range list {
		sum += q.Messages
	}
	return sum
}

var operators = map[string]func(n, than int) bool{
	">":  func(n, than int) bool { return n > than },
	">=": func(n, than int) bool { return n >= than },
	"<":  func(n, than int) bool { return n < than },
	"<=": func(n, than int) bool { return n <= than },
	"==": func(n, than int) bool { return n == than },
	"!=": func(n, than int) bool { return n != than },
}

// conditionForm is name, operator and number.
var conditionForm = regexp.MustCompile(`^\s*([a-z]+)\s*(==|!=|<=|>=|<|>)\s*([0-9]+)\s*$`)

// UnmarshalText is for the flag.
func (c *condition) UnmarshalText(text []byte) (err error) {
	*c, err = parseCondition(string(text))
	return err
}

// parseCondition reads a condition. Its error says what is allowed.
func parseCondition(text string) (condition, error) {
	parts := conditionForm.FindStringSubmatch(text)
	if parts == nil {
		return condition{}, fmt.Errorf("%q is no condition such as unroutable>0: want a name, one of > >= < <= == != and a whole number (names: %s)", text, numberNames())
	}
	if numbers[parts[1]] == nil {
		return condition{}, fmt.Errorf("%q: there is no number %q (names: %s)", text, parts[1], numberNames())
	}
	n, err := strconv.Atoi(parts[3])
	if err != nil {
		return condition{}, fmt.Errorf("%q: %s is too large", text, parts[3])
	}
	return condition{text, parts[1], parts[2], n}, nil
}

// holds says why a condition holds, or "". What is not known is an error.
func (c condition) holds(s status.Status) (string, error) {
	n, ok := numbers[c.name](s)
	if !ok {
		return "", fmt.Errorf("%s: %s is not known%s", c.text, c.name, reasons(s))
	}
	if !operators[c.op](n, c.number) {
		return "", nil
	}
	return fmt.Sprintf("%s: %s is %d", c.text, c.name, n), nil
}

// reasons lists why something is not known.
func reasons(s status.Status) string {
	list := unknowns(s)
	if list == nil {
		return ""
	}
	return " (" + strings.Join(list, "; ") + ")"
}
