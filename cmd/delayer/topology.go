package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/topology"
)

type topologyCmd struct {
	Print  topologyPrintCmd  `cmd:"" help:"Print the exchanges, queues and bindings that a backend declares. No broker is needed."`
	Apply  topologyApplyCmd  `cmd:"" help:"Declare them. Repeating it changes nothing."`
	Verify topologyVerifyCmd `cmd:"" help:"Compare them with the broker, and look for policies that would make messages early or lose them."`
	Remove topologyRemoveCmd `cmd:"" help:"Delete them, if nothing waits there."`
}

// topologyPrintCmd is `delayer topology print`.
type topologyPrintCmd struct {
	configFlag
	chosenFlags
	Output    string `default:"text" enum:"text,definitions,kubernetes" help:"text; definitions: JSON for rabbitmqctl import_definitions or the management plugin; or kubernetes: resources of RabbitMQ's messaging topology operator, version 1.17 or later (${default})."`
	Cluster   string `placeholder:"NAME" help:"With --output kubernetes: the RabbitmqCluster."`
	Namespace string `placeholder:"NAME" help:"With --output kubernetes: the namespace of the resources."`
}

// Validate refuses invalid values as usage errors.
func (c *topologyPrintCmd) Validate() error {
	const kubernetes = "kubernetes"
	switch {
	case c.Output == kubernetes && c.Cluster == "":
		return errors.New("--output kubernetes needs --cluster, the name of the RabbitmqCluster")
	case c.Output != kubernetes && c.Cluster+c.Namespace != "":
		return errors.New("--cluster and --namespace need --output kubernetes")
	}
	return nil
}

// Run prints the topology.
func (c *topologyPrintCmd) Run(s streams) error {
	if err := c.print(s); err != nil {
		return failure("topology print", err)
	}
	return nil
}

func (c *topologyPrintCmd) print(s streams) error {
	cfg, err := c.load()
	if err == nil {
		cfg, err = c.choose(cfg)
	}
	if err != nil {
		return err
	}
	if c.Output == "definitions" {
		return backend.WriteDefinitions(s.out, cfg)
	}
	t, err := backend.Topology(cfg)
	if err != nil {
		return err
	}
	if c.Output == "text" {
		return t.WriteText(s.out)
	}
	vhost := "/"
	if cfg.URL != "" {
		if vhost, err = broker.Vhost(cfg.URL); err != nil {
			return err
		}
	}
	return t.(topology.Plan).WriteKubernetes(s.out, vhost, topology.Cluster{Name: c.Cluster, Namespace: c.Namespace})
}

// topologyApplyCmd is `delayer topology apply`.
type topologyApplyCmd struct {
	targetFlags
	outputFlag
}

// Help says what is declared.
func (c *topologyApplyCmd) Help() string {
	return "With declare: false in the configuration these are also all bindings that a Delayer may ever use: up to 20,000, for which --timeout 2m is better."
}

// Run declares the topology and names what was missing.
func (c *topologyApplyCmd) Run(ctx context.Context, s streams) error {
	if err := c.apply(ctx, s); err != nil {
		return cli.InterruptedOr(ctx, failure("topology apply", err))
	}
	return nil
}

func (c *topologyApplyCmd) apply(ctx context.Context, s streams) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cfg, err := c.load()
	if err != nil {
		return err
	}
	created, err := backend.Apply(ctx, cfg)
	if err != nil {
		return err
	}
	if c.json() {
		return writeJSON(s.out, map[string]any{"created": append([]string{}, created...)})
	}
	for _, object := range created {
		fmt.Fprintln(s.out, "declared", object)
	}
	_, err = fmt.Fprintf(s.out, "prefix %s: %d exchanges and queues were missing; all are there\n", shown(cfg.Prefix), len(created))
	return err
}

// topologyVerifyCmd is `delayer topology verify`.
type topologyVerifyCmd struct {
	targetFlags
	outputFlag
}

// Help says what a script needs.
func (c *topologyVerifyCmd) Help() string {
	return "It needs the management API. The exit status is 0 if there is no problem, and 1 if there is one, or if the broker could not be asked."
}

// Run prints a line for each problem, and fails if there are any.
func (c *topologyVerifyCmd) Run(ctx context.Context, s streams) error {
	if err := c.verify(ctx, s); err != nil {
		return cli.InterruptedOr(ctx, failure("topology verify", err))
	}
	return nil
}

func (c *topologyVerifyCmd) verify(ctx context.Context, s streams) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	cfg, err := c.load()
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
			count(len(problems), "problem"))
	}
	return nil
}

func (c *topologyVerifyCmd) print(s streams, cfg backend.Config, problems []backend.Problem) error {
	if c.json() {
		return writeJSON(s.out, map[string]any{"problems": problems})
	}
	if len(problems) == 0 {
		_, err := fmt.Fprintf(s.out, "prefix %s: the broker holds what this configuration declares, and no policy harms it\n", shown(cfg.Prefix))
		return err
	}
	t := newTable("PROBLEM", "OBJECT")
	for _, p := range problems {
		t.add(p.Kind, p.String())
	}
	return t.write(s.out)
}

// topologyRemoveCmd is `delayer topology remove`.
type topologyRemoveCmd struct {
	targetFlags
	Force bool `help:"Delete the messages too, and whoever is at work. It asks for the prefix to be typed; without a terminal give --prefix."`
}

// Help says what is in the way.
func (c *topologyRemoveCmd) Help() string {
	return "It refuses while messages are in one of the queues, unroutable ones included, and while a Delayer or a controller consumes one. Close all Delayers of the prefix first: an open one declares everything again."
}

// Run deletes the topology.
func (c *topologyRemoveCmd) Run(ctx context.Context, s streams) error {
	if err := c.remove(ctx, s); err != nil {
		return cli.InterruptedOr(ctx, failure("topology remove", err))
	}
	return nil
}

func (c *topologyRemoveCmd) remove(ctx context.Context, s streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if err := c.agreed(ctx, s, cfg.Prefix); err != nil {
		return err
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	if err := backend.Remove(ctx, cfg, c.Force); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "prefix %s: the exchanges and queues of backend %s are deleted\n", shown(cfg.Prefix), cfg.Backend)
	return err
}

// agreed makes sure that force is meant, and for this prefix.
func (c *topologyRemoveCmd) agreed(ctx context.Context, s streams, prefix string) error {
	if !c.Force || c.Prefix != "" && !cli.IsTerminal(s.in) {
		return nil
	}
	question := fmt.Sprintf("This deletes the queues of prefix %s with all messages in them.", shown(prefix))
	return agree(ctx, s, question, prefix, "--prefix with the name of the prefix")
}
