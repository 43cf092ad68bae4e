// Package topologycmd prints, declares, verifies and deletes broker objects: delayer topology.
package topologycmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/status"
)

// Command is `delayer topology`.
type Command struct {
	Print  printCmd  `cmd:"" help:"Print the exchanges, queues and bindings that a backend declares. No broker is needed."`
	Apply  applyCmd  `cmd:"" help:"Declare them. Repeating it changes nothing."`
	Verify verifyCmd `cmd:"" help:"Compare them with the broker, and look for policies and bindings that would make messages early or lose them."`
	Remove removeCmd `cmd:"" help:"Delete them, if nothing waits there."`
}

type printCmd struct {
	flags.File
	flags.Choice
	Output string `default:"text" enum:"text,definitions" help:"text; or definitions: JSON for rabbitmqctl import_definitions or the management plugin (default ${default})."`
}

func (c *printCmd) Run(s cli.Streams) error {
	cfg, err := c.Load()
	if err == nil {
		cfg, err = c.Choose(cfg)
	}
	if err != nil {
		return err
	}
	t, err := backend.Topology(cfg)
	if err != nil {
		return err
	}
	if c.Output == "text" {
		return t.WriteText(s.Out)
	}
	vhost := "/"
	if cfg.URL != "" {
		if vhost, err = broker.Vhost(cfg.URL); err != nil {
			return err
		}
	}
	return t.WriteDefinitions(s.Out, vhost)
}

type applyCmd struct {
	flags.Target
	cli.Format
}

func (c *applyCmd) Help() string {
	return "With passive: true in the configuration these are also all bindings that a Delayer may ever use: up to 20,000, for which --timeout 2m is better."
}

func (c *applyCmd) Run(ctx context.Context, s cli.Streams) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	created, err := backend.Apply(ctx, cfg)
	if err != nil {
		return err
	}
	if c.JSON() {
		return cli.WriteJSON(s.Out, map[string]any{"created": append([]string{}, created...)})
	}
	for _, object := range created {
		fmt.Fprintln(s.Out, "declared", object)
	}
	_, err = fmt.Fprintf(s.Out, "prefix %s: %s; all are there\n", cli.Shown(cfg.Prefix), missing(len(created)))
	return err
}

func missing(n int) string {
	if n == 1 {
		return "1 exchange or queue was missing"
	}
	return fmt.Sprintf("%d exchanges and queues were missing", n)
}

type verifyCmd struct {
	flags.Target
	cli.Format
}

func (c *verifyCmd) Help() string {
	return "It needs the management API. The exit status is 0 if there is no problem, and 1 if there is one, or if the broker could not be asked."
}

func (c *verifyCmd) Run(ctx context.Context, s cli.Streams) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	problems, err := backend.Verify(ctx, cfg)
	if err != nil {
		return err
	}
	if err := c.print(s, cfg, problems); err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s (topology apply declares what is missing; rabbitmqctl list_policies and list_operator_policies show policies)",
			cli.Count(len(problems), "problem"))
	}
	return nil
}

func (c *verifyCmd) print(s cli.Streams, cfg backend.Config, problems []backend.Problem) error {
	if c.JSON() {
		return cli.WriteJSON(s.Out, map[string]any{"problems": problems})
	}
	if len(problems) == 0 {
		_, err := fmt.Fprintf(s.Out, "prefix %s: the broker holds what this configuration declares, and no policy harms it\n", cli.Shown(cfg.Prefix))
		return err
	}
	t := cli.NewTable("PROBLEM", "OBJECT")
	for _, p := range problems {
		t.Add(p.Kind, p.String())
	}
	return t.Write(s.Out)
}

type removeCmd struct {
	flags.Target
	Force bool `help:"Delete the messages too, and also while a Delayer or a controller is at work. Give --prefix with the name of the prefix as well."`
}

func (c *removeCmd) Help() string {
	return "It refuses while messages are in one of the queues, unroutable ones included, and while a Delayer or a controller consumes one. Close all Delayers of the prefix first: an open one declares everything again."
}

// Validate makes sure that force is meant, and for this prefix.
func (c *removeCmd) Validate() error {
	if c.Force && c.Prefix == "" {
		return errors.New("--force deletes messages: give --prefix with the name of the prefix to agree")
	}
	return c.Deadline.Validate()
}

func (c *removeCmd) Run(ctx context.Context, s cli.Streams) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	if err := backend.Remove(ctx, cfg, c.Force); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "prefix %s: the exchanges and queues of backend %s are deleted\n", cli.Shown(cfg.Prefix), cfg.Backend)
	others, err := left(ctx, cfg)
	if err != nil {
		return fmt.Errorf("whether other backends have queues under the prefix is not known: %w", err)
	}
	for _, name := range others {
		fmt.Fprintf(s.Out, "those of backend %s are still there: delayer topology remove --prefix %s --backend %s\n", name, cli.Shown(cfg.Prefix), name)
	}
	return nil
}

// left returns the other backends that have queues under the prefix.
func left(ctx context.Context, cfg backend.Config) (names []string, err error) {
	cfg.Management = "" // what it adds is not asked for
	r, err := status.Open(ctx, status.Config{Backend: cfg})
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // it cannot fail
	s, err := r.Read(ctx)
	if errors.Is(err, delayer.ErrNotFound) {
		return nil, nil
	}
	for _, b := range s.Backends {
		if !b.Configured {
			names = append(names, b.Name)
		}
	}
	return names, err
}
