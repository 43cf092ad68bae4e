package statuscmd

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/delayer-go/delayer/internal/app/remarks"
	"github.com/delayer-go/delayer/status"
)

// A condition compares a number of a status, as in unroutable>0.
type condition struct {
	text, name, op string
	number         int
}

// numbers are what conditions know. ok is false for what is not known.
var numbers = map[string]func(status.Status) (n int, ok bool){
	"waiting": func(s status.Status) (int, bool) {
		if s.Waiting == nil {
			return 0, false
		}
		return *s.Waiting, true
	},
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

// NumberNames lists them for people.
func NumberNames() string { return strings.Join(slices.Sorted(maps.Keys(numbers)), ", ") }

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

// UnmarshalText reads the flag. Its error says what is allowed.
func (c *condition) UnmarshalText(flag []byte) error {
	text := string(flag)
	parts := conditionForm.FindStringSubmatch(text)
	if parts == nil {
		return fmt.Errorf("%q is no condition such as unroutable>0: want a name, one of > >= < <= == != and a whole number (names: %s)", text, NumberNames())
	}
	if numbers[parts[1]] == nil {
		return fmt.Errorf("%q: there is no number %q (names: %s)", text, parts[1], NumberNames())
	}
	n, err := strconv.Atoi(parts[3])
	if err != nil {
		return fmt.Errorf("%q: %s is too large", text, parts[3])
	}
	*c = condition{text, parts[1], parts[2], n}
	return nil
}

// holds says why a condition holds, or "". What is not known is an error.
func (c condition) holds(s status.Status) (string, error) {
	n, ok := numbers[c.name](s)
	if !ok {
		reasons := ""
		if list := remarks.Unknowns(s); list != nil {
			reasons = " (" + strings.Join(list, "; ") + ")"
		}
		return "", fmt.Errorf("%s: %s is not known%s", c.text, c.name, reasons)
	}
	if !operators[c.op](n, c.number) {
		return "", nil
	}
	return fmt.Sprintf("%s: %s is %d", c.text, c.name, n), nil
}
