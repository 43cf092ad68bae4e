package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/internal/cli"
)

// benchCmd is `delayer-bench run`, the default. A flag at its zero value takes the default of the
// run chosen; see sizes.go.
type benchCmd struct {
	Quick       bool            `xor:"size" help:"A small run that ends within three minutes on two cores: accuracy and hol, quorum queues."`
	Full        bool            `xor:"size" help:"The reference run: every scenario, in less than half an hour. What would take one subject minutes is left out, unless it is named."`
	Out         string          `default:"report" placeholder:"DIR" help:"Where to write report.json, report.md, report.html, report.bench and samples.csv.gz (${default})."`
	Backend     []string        `placeholder:"NAME,…" help:"Measure only these: ${subjects}. All by default."`
	Scenario    []string        `placeholder:"NAME,…" help:"Run only these: ${scenarios}. By default accuracy, hol and rate."`
	QueueType   []string        `placeholder:"TYPE,…" help:"Queues in which messages wait: quorum (at-least-once), classic. Both by default; quorum with --quick."`
	URL         string          `placeholder:"AMQP" help:"Measure the broker at this URL. Others on this machine can see it: a password is better in AMQP_URL. Without it: the broker at AMQP_URL, or one in Docker, or a private node."`
	Management  string          `placeholder:"HTTP" help:"The management API of that broker, for its memory: http://host:15672, with the user of the AMQP URL unless it names one. By default that port is tried."`
	Rate        float64         `placeholder:"N" help:"Publish N messages per second. By default as fast as confirmed, and what each scenario needs. Not in burst and rate."`
	Messages    int             `placeholder:"N" help:"Messages in each run; in backlog and recovery, those that wait. By default what each scenario needs. Not in rate."`
	Body        int             `placeholder:"BYTES" help:"Size of each message's body (64)."`
	Delays      delayRange      `placeholder:"FROM-TO" help:"Delays in accuracy: 1s-15s, 100ms-15s (1s-15s; 1s-5s with --quick)."`
	Step        time.Duration   `placeholder:"STEP" help:"Between two delays in accuracy (1s; 1ms if FROM or TO is no whole second)."`
	Bits        []int           `placeholder:"N,…" help:"Measure binaryladder with so many bits per level, 1 to 6, each with every --tick."`
	Tick        []time.Duration `placeholder:"TICK,…" help:"Measure binaryladder with these ticks, each with every --bits."`
	Concurrency int             `default:"256" placeholder:"N" help:"Publishers, each waiting for its confirm (${default})."`
	Repeat      int             `default:"1" placeholder:"N" help:"Repeat every run N times; tables then show medians."`
}

// Validate makes a value that is not known a usage error, before anything is started.
func (c *benchCmd) Validate() error {
	_, err := c.selection()
	return err
}

// Run measures, prints the tables, writes the reports, and fails if a message was early, lost or
// doubled by anything but a baseline.
func (c *benchCmd) Run(ctx context.Context, s streams) error {
	chosen, err := c.selection()
	if err != nil {
		return fmt.Errorf("delayer-bench: %w", err)
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil { // before minutes of work, not after
		return fmt.Errorf("delayer-bench: --out: %w", err)
	}
	display := cli.NewDisplay(s.err)
	target, url, release, err := openTarget(ctx, c.URL, c.Management, display.Logf)
	if err != nil {
		return cli.InterruptedOr(ctx, fmt.Errorf("delayer-bench: %w", err))
	}
	defer release()
	display.Logf("measuring takes about %v", chosen.estimate(c.Repeat).Round(time.Second))
	report := bench.Benchmark{
		URL: url, Target: target,
		Scenarios: chosen.scenarios, Subjects: chosen.subjects, Leaves: chosen.leaves, Repeat: c.Repeat,
		Command: commandLine(os.Args), Progress: func(e bench.Event) { show(display, e) },
	}.Run(ctx)
	display.End()
	if err := publish(report, c.Out, s); err != nil {
		return fmt.Errorf("delayer-bench: %w", err)
	}
	return failures(report)
}

// failures make the exit status 1.
func failures(report *bench.Report) error {
	var problems []error
	for _, problem := range report.Problems() {
		problems = append(problems, errors.New("FAILED "+problem))
	}
	if report.Partial {
		problems = append(problems, fmt.Errorf("%w: the report is partial", cli.ErrInterrupted))
	}
	return errors.Join(problems...)
}

// credentials finds the user and password of a URL.
var credentials = regexp.MustCompile(`://[^/\s]*@`)

// commandLine is what was typed, without anybody's password.
func commandLine(args []string) string {
	args = append([]string{"delayer-bench"}, args[min(1, len(args)):]...)
	return credentials.ReplaceAllString(strings.Join(args, " "), "://…@")
}
