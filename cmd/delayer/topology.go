package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/cli"
)

type topologyCmd struct {
	Print  topologyPrintCmd  `cmd:"" help:"Print the exchanges, queues and bindings that a backend declares. No broker is needed."`
	Verify topologyVerifyCmd `cmd:"" help:"Ask the management API for policies that would make messages early or lose them. The exit status is 1 if there are any."`
	Empty  topologyEmptyCmd  `cmd:"" help:"Print how many messages wait in each queue of a configuration. The exit status is 1 if there are any."`
}

// topologyPrintCmd is `delayer topology print`.
type topologyPrintCmd struct {
	Config  string `placeholder:"FILE" help:"The configuration, YAML or JSON. DELAYER_… variables override it."`
	Backend string `placeholder:"NAME" help:"The backend, instead of the configuration's: ${backends}."`
	Format  string `default:"text" enum:"text,definitions" help:"text, or definitions: JSON for rabbitmqctl import_definitions or the management plugin (${default})."`
}

// Run prints the topology.
func (c *topologyPrintCmd) Run(s streams) error {
	if err := c.print(s); err != nil {
		return failure("topology print", err)
	}
	return nil
}

func (c *topologyPrintCmd) print(s streams) error {
	cfg, err := loadConfig(c.Config)
	if err != nil {
		return err
	}
	if c.Backend != "" {
		cfg.Backend = c.Backend
	}
	if c.Format == "definitions" {
		return backend.WriteDefinitions(s.out, cfg)
	}
	topology, err := backend.Topology(cfg)
	if err != nil {
		return err
	}
	return topology.WriteText(s.out)
}

// topologyVerifyCmd is `delayer topology verify`.
type topologyVerifyCmd struct {
	Config string `placeholder:"FILE" help:"The configuration, which needs the key management. DELAYER_… variables override it."`
}

// Run prints a line for each problem, and fails if there are any.
func (c *topologyVerifyCmd) Run(ctx context.Context, s streams) error {
	cfg, err := loadBroker(c.Config, "")
	if err != nil {
		return failure("topology verify", err)
	}
	problems, err := backend.Verify(ctx, cfg)
	if err != nil {
		return cli.InterruptedOr(ctx, failure("topology verify", err))
	}
	for _, p := range problems {
		fmt.Fprintln(s.out, p)
	}
	if len(problems) > 0 {
		return failure("topology verify", fmt.Errorf("%d problems with policies (see rabbitmqctl list_policies and list_operator_policies)", len(problems)))
	}
	fmt.Fprintln(s.out, "no policy harms the objects of this configuration")
	return nil
}

// topologyEmptyCmd is `delayer topology empty`.
type topologyEmptyCmd struct {
	Config string `placeholder:"FILE" help:"The configuration. DELAYER_… variables override it."`
}

// Run prints a line for each queue that holds messages, and fails if there are any.
func (c *topologyEmptyCmd) Run(ctx context.Context, s streams) error {
	cfg, err := loadBroker(c.Config, "")
	if err != nil {
		return failure("topology empty", err)
	}
	waiting, err := backend.Waiting(ctx, cfg)
	if err != nil {
		return cli.InterruptedOr(ctx, failure("topology empty", err))
	}
	sum := 0
	for _, queue := range slices.Sorted(maps.Keys(waiting)) {
		fmt.Fprintf(s.out, "%8d  %s\n", waiting[queue], queue)
		sum += waiting[queue]
	}
	if sum > 0 {
		return failure("topology empty", fmt.Errorf("%d messages wait in %d queues", sum, len(waiting)))
	}
	fmt.Fprintln(s.out, "nothing waits in the queues of this configuration")
	return nil
}

// loadConfig reads the file and the environment; without a file, the environment.
func loadConfig(path string) (backend.Config, error) {
	if path == "" {
		return backend.FromEnv(backend.Config{}, os.Environ())
	}
	return backend.Load(path)
}

// loadBroker is loadConfig for a command that needs a broker. url overrides the configuration's.
func loadBroker(path, url string) (backend.Config, error) {
	cfg, err := loadConfig(path)
	if err != nil {
		return cfg, err
	}
	if url != "" {
		cfg.URL = url
	}
	if cfg.URL == "" {
		return cfg, errNoURL
	}
	return cfg, nil
}

// errNoURL is the error of a command that needs a broker and has no URL.
var errNoURL = errors.New("no broker: give --config with a url, or set DELAYER_URL")
