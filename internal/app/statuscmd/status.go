// Package statuscmd shows what waits where: delayer status.
package statuscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/remarks"
	"github.com/delayer-go/delayer/internal/app/service"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/strict"
	"github.com/delayer-go/delayer/status"
)

// Command is `delayer status`.
type Command struct {
	flags.Target
	service.Flags
	Parked []string      `sep:"none" placeholder:"QUEUE" help:"A queue of parked messages. May be repeated. Default: those whose names end in .parked, if there is a management API."`
	Watch  bool          `help:"Look again and again, until Ctrl-C."`
	Every  time.Duration `default:"2s" help:"With --watch: how often (default ${default})."`
	Output string        `default:"table" enum:"table,json" help:"table or json (default ${default}). With --watch each is one line a look."`
	FailIf []condition   `sep:"none" placeholder:"NAME>N" help:"Fail if this holds: a name, one of > >= < <= == != and a number, as in 'unroutable>0'. May be repeated. Names: ${numbers}."`
}

// Help says what a script needs.
func (c *Command) Help() string {
	return "The exit status is 0, or 1 if a condition of --fail-if holds or asks for what is not known, or if the broker could not be asked. " +
		"With --watch it ends as soon as a condition holds, and with 0 after Ctrl-C."
}

// Validate refuses invalid values as usage errors.
func (c *Command) Validate() error {
	if c.Every <= 0 {
		return errors.New("--every must be positive")
	}
	if c.Listen != "" && !c.Watch {
		return errors.New("--listen: give --watch too")
	}
	return errors.Join(c.Flags.Validate(), c.Target.Validate())
}

// Run shows the status, once or again and again.
func (c *Command) Run(ctx context.Context, s cli.Streams) error {
	err := c.run(ctx, s)
	if c.Watch && ctx.Err() != nil {
		return nil //nolint:nilerr // to be interrupted is how a watch ends
	}
	return err
}

func (c *Command) run(ctx context.Context, s cli.Streams) error {
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	running, err := c.Start(ctx, s.Err)
	if err != nil {
		return err
	}
	defer running.Close()
	if c.Listen != "" {
		running.Configure(&cfg)
	}
	opening, cancel := c.Within(ctx)
	defer cancel()
	_, text, err := c.Read()
	if err != nil {
		return err
	}
	r, err := status.Open(opening, status.Config{Backend: cfg, Parked: c.Parked, Entries: entries(text, cfg.Prefix)})
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	for {
		if err := c.look(ctx, r, s.Out); err != nil || !c.Watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

// entries are the queues in which delayer serve parks messages with a configuration. What is wrong
// with its section, delayer serve says.
func entries(text []byte, prefix string) (parked []string) {
	var serve struct {
		Exchanges []struct {
			Name string `yaml:"name"`
		} `yaml:"exchanges"`
		AMQP struct {
			Listen string `yaml:"listen"`
		} `yaml:"amqp"`
	}
	strict.Peek(text, "serve", &serve)
	for _, x := range serve.Exchanges {
		parked = append(parked, entry.NamesOf(prefix, x.Name).Parked)
	}
	if serve.AMQP.Listen != "" {
		parked = append(parked, entry.NamesOf(prefix, entry.Proxied(prefix).Name).Parked)
	}
	return parked
}

// look reads the status, shows it and checks the conditions.
func (c *Command) look(ctx context.Context, r *status.Reader, out io.Writer) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	found, err := r.Read(ctx)
	if err != nil {
		return err
	}
	if err := c.show(out, found); err != nil {
		return err
	}
	var held []string
	for _, one := range c.FailIf {
		why, err := one.holds(found)
		if err != nil {
			return err
		}
		if why != "" {
			held = append(held, why)
		}
	}
	if held != nil {
		return errors.New(strings.Join(held, "; "))
	}
	return nil
}

func (c *Command) show(out io.Writer, s status.Status) (err error) {
	switch {
	case c.Output == "json" && c.Watch:
		return json.NewEncoder(out).Encode(report(s))
	case c.Output == "json":
		return cli.WriteJSON(out, report(s))
	case c.Watch:
		_, err = fmt.Fprintln(out, line(s))
	default:
		_, err = io.WriteString(out, page(s, time.Now()))
	}
	return err
}

// A Report is the JSON of a status.
type Report struct {
	Delayer string `json:"delayer"`
	status.Status
}

// report has lists where nothing is known to be there, and null where nothing is known.
func report(s status.Status) Report {
	if s.Unknown == nil {
		s.Unknown = []status.Unknown{}
	}
	return Report{cli.Version(), s}
}

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
	"controllers": func(s status.Status) (int, bool) {
		return overBackends(s, func(b status.Backend) *int { return b.Controllers })
	},
	"overdue": func(s status.Status) (int, bool) {
		return overBackends(s, func(b status.Backend) *int { n, _ := b.Overdue(); return n })
	},
	"missing": func(s status.Status) (int, bool) {
		n, ok := overBackends(s, func(b status.Backend) *int { n := len(b.Missing); return &n })
		unknown := slices.ContainsFunc(s.Unknown, func(u status.Unknown) bool { return u.What == objects.Feature })
		return n, ok && (n > 0 || !unknown)
	},
	"misrouted":  func(s status.Status) (int, bool) { return inQueue(s.Misrouted), true },
	"unroutable": func(s status.Status) (int, bool) { return inQueue(s.Unroutable), true },
	"parked":     func(s status.Status) (int, bool) { return inQueues(s.Parked), s.Parked != nil },
	"others":     func(s status.Status) (int, bool) { return inQueues(s.Others), s.Others != nil },
	"bindings":   func(s status.Status) (int, bool) { return len(s.Bindings), s.Bindings != nil },
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
