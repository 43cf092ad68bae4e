// Package statuscmd shows what waits where: delayer status.
package statuscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/service"
	"github.com/delayer-go/delayer/status"
)

// Command is `delayer status`.
type Command struct {
	flags.Target
	service.Flags
	All    bool          `help:"Show empty queues too."`
	Parked []string      `sep:"none" placeholder:"QUEUE" help:"A queue of parked messages. May be repeated. Default: those whose names end in .parked, if there is a management API."`
	Plugin bool          `help:"Count what waits in the plugin: the broker reads the plugin's whole table. It needs the management API."`
	Watch  bool          `help:"Look again and again, until Ctrl-C."`
	Every  time.Duration `default:"2s" help:"With --watch: how often (default ${default})."`
	Output string        `default:"table" enum:"table,json" help:"table or json (default ${default}). With --watch json is one line a look."`
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
	r, err := status.Open(opening, status.Config{Backend: cfg, Plugin: c.Plugin, Parked: c.Parked})
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // nothing was written
	show := c.shower(s.Out)
	for {
		if err := c.look(ctx, r, show); err != nil || !c.Watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

// look reads the status, shows it and checks the conditions.
func (c *Command) look(ctx context.Context, r *status.Reader, show func(status.Status) error) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	found, err := r.Read(ctx)
	if err != nil {
		return err
	}
	if err := show(found); err != nil {
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

// shower returns what shows a status: on a terminal, in the place of the last one.
func (c *Command) shower(out io.Writer) func(status.Status) error {
	screen := cli.NewScreen(out)
	look := func() view {
		width, _ := screen.Size()
		return view{width: width, all: c.All, now: time.Now()}
	}
	switch {
	case c.Output == "json" && c.Watch:
		return func(s status.Status) error { return json.NewEncoder(out).Encode(report(s)) }
	case c.Output == "json":
		return func(s status.Status) error { return cli.WriteJSON(out, report(s)) }
	case c.Watch && screen.Live():
		var last status.Status
		return func(s status.Status) error {
			v := look()
			text := clock(s, last, v.now, c.Every) + page(s, v)
			last = s
			return screen.Draw(text)
		}
	case c.Watch:
		return func(s status.Status) error {
			_, err := fmt.Fprintln(out, line(s))
			return err
		}
	}
	return func(s status.Status) error {
		_, err := io.WriteString(out, page(s, look()))
		return err
	}
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
