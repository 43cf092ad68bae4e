package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/delayer-go/delayer/internal/cli"
)

// healthCmd is `delayer health`, for images and machines without a program that asks by HTTP.
type healthCmd struct {
	Address     string `arg:"" optional:"" default:"http://127.0.0.1:8080/healthz" help:"Where the command listens: /healthz, or /readyz (${default})."`
	timeoutFlag `set:"timeout=3s"`
}

// Run fails unless the answer is 200.
func (c *healthCmd) Run(ctx context.Context, s streams) error {
	if err := c.ask(ctx, s.out); err != nil {
		return cli.InterruptedOr(ctx, failure("health", err))
	}
	return nil
}

func (c *healthCmd) ask(ctx context.Context, out io.Writer) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Address, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%w (does the command run with --listen?)", err)
	}
	defer answer.Body.Close() //nolint:errcheck // read only
	const enough = 4 << 10
	text, err := io.ReadAll(io.LimitReader(answer.Body, enough))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", c.Address, answer.Status, text)
	}
	_, err = out.Write(text)
	return err
}
