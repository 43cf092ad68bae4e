package servecmd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
)

// Health is `delayer health`, for images and machines without a program that asks by HTTP.
type Health struct {
	Address        string `arg:"" optional:"" default:"http://127.0.0.1:8080/healthz" help:"Where the command listens: a host and port, whose /healthz is asked, or a URL as of /readyz (default ${default})."`
	flags.Deadline `set:"timeout=3s"`
}

// Run fails unless the answer is 200.
func (c *Health) Run(ctx context.Context, s cli.Streams) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(), nil)
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
		return fmt.Errorf("%s answers %s: %s", c.url(), answer.Status, text)
	}
	_, err = s.Out.Write(text)
	return err
}

// url completes the address as --listen has it: localhost:8080, or :8080 for this machine.
func (c *Health) url() string {
	switch {
	case strings.Contains(c.Address, "://"):
		return c.Address
	case strings.Contains(c.Address, "/"):
		return "http://" + c.Address
	}
	return "http://" + c.Address + "/healthz"
}
