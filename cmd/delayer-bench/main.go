// Command delayer-bench measures ways of delaying RabbitMQ messages. See docs/testing.md.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lab/bench"
	"github.com/delayer-go/delayer/internal/lab/bench/report"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// commands is the command line; kong reads it from the field tags.
type commands struct {
	Run    benchCmd  `cmd:"" default:"withargs" help:"Run the benchmark (default)."`
	Render renderCmd `cmd:"" help:"Write the pages of a report.json again."`
	cli.Common
}

type streams struct{ out, err io.Writer }

func main() { cli.Main(run) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	return program().Run(ctx, args, stdout, stderr, streams{stdout, stderr})
}

func program() cli.Program {
	return cli.Program{
		Name: "delayer-bench", Commands: &commands{},
		Description: "Measure how late, how fast and at what cost each backend delivers.",
		Vars: kong.Vars{
			"subjects":  strings.Join(subjectNames(), ", "),
			"scenarios": strings.Join(bench.Scenarios(), ", "),
		},
	}
}

// benchCmd is `delayer-bench run`, the default. A flag at its zero value takes the default of the
// chosen size; see package bench.
type benchCmd struct {
	Quick       bool     `xor:"size" help:"A small run: accuracy, cost and hol, quorum queues. About three minutes on two cores."`
	Full        bool     `xor:"size" help:"The reference run: every scenario, with quorum queues alone in 18 to 25 minutes. Subjects that would take minutes are left out, unless named."`
	Out         string   `default:"report" placeholder:"DIR" help:"Where to write report.json, report.html and report.bench (default ${default})."`
	Backend     []string `enum:"${subjects}" placeholder:"NAME" help:"Measure only these: ${subjects}. Default: all, the controller with slots on quorum queues and with rounds on classic ones."`
	Scenario    []string `enum:"${scenarios}" placeholder:"NAME" help:"Run only these: ${scenarios}. Default: accuracy, cost, hol and rate."`
	QueueType   []string `enum:"quorum,classic" placeholder:"TYPE" help:"Type of the queues in which messages wait: quorum (at-least-once), classic. Default: both; quorum with --quick."`
	URL         string   `env:"DELAYER_URL" placeholder:"AMQP" help:"Measure the broker at this URL. Other users of this machine can see it: put a password into ${env}. Default: one in Docker, or a private node."`
	Rate        float64  `placeholder:"N" help:"Publish N messages per second. Default: as the scenario needs. Not for cost and rate."`
	Messages    uint     `placeholder:"N" help:"Messages of each run; in backlog, those that wait. Default: as the scenario needs. Not for rate."`
	Body        uint     `placeholder:"BYTES" help:"Size of each message's body (64)."`
	Delays      delays   `placeholder:"FROM-TO" help:"Delays of accuracy and cost, such as 100ms-15s (1s-15s; 1s-2s with --quick), or a list: 1s,5s,1m."`
	Steps       []string `sep:"none" placeholder:"STEPS" help:"Measure binaryladder with these steps: calendar, binary, or a list such as 1s,2s,4s. Repeat the flag for several."`
	Destination string   `enum:"queue,exchange" default:"queue" placeholder:"KIND" help:"What messages are published to: a queue, by its name, or an exchange that leads to it (default ${default})."`
	Consume     string   `enum:"classic,quorum" default:"classic" placeholder:"TYPE" help:"What is consumed: a classic queue, without acknowledgements, or a quorum queue, with (default ${default})."`
	Consumers   uint     `default:"1" placeholder:"N" help:"Consumers of that queue (default ${default})."`
	Concurrency uint     `default:"256" placeholder:"N" help:"Publishers, each waiting for its confirm (default ${default})."`
	Repeat      uint     `default:"1" placeholder:"N" help:"Repeat every run N times; tables then show medians and their range."`
}

func (c *benchCmd) Validate() error {
	_, err := c.benchmark()
	return err
}

// Run measures, prints the tables and writes the reports. It fails if a message was early, lost or
// duplicated, unless by a baseline.
func (c *benchCmd) Run(ctx context.Context, s streams) error {
	display := cli.NewDisplay(s.err)
	r, err := c.measure(ctx, display)
	if r == nil {
		return err
	}
	display.End()
	err = errors.Join(err, r.WriteText(s.out))
	fmt.Fprintln(s.out)
	files := append([]outputFile{{"report.json", r.WriteJSON}}, pages(r)...)
	if err := errors.Join(err, write(s, c.Out, files...)); err != nil {
		return err
	}
	return failures(r)
}

// measure returns a report unless nothing could be measured.
func (c *benchCmd) measure(ctx context.Context, display *cli.Display) (*report.Report, error) {
	b, err := c.benchmark()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil { // before minutes of work, not after
		return nil, fmt.Errorf("--out: %w", err)
	}
	if c.URL != "" {
		display.Logf("processor time and memory are left out: the broker is not ours to measure")
		b.Broker, err = rabbit.At(ctx, c.URL, "given by --url")
	} else {
		display.Logf("looking for a broker")
		b.Broker, err = rabbit.Start(ctx, rabbit.Options{Logf: display.Logf, Plugins: []string{"rabbitmq_delayed_message_exchange"}})
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Broker.Close() }()
	if c.URL == "" {
		display.Logf("watching for %v what it uses when idle", bench.IdleFor)
	}
	b.Command = commandLine(os.Args)
	b.Progress = func(e bench.Event) { show(display, e) }
	return b.Run(ctx), nil
}

// failures make the exit status 1.
func failures(r *report.Report) error {
	var problems []error
	for _, problem := range r.Problems() {
		problems = append(problems, errors.New("FAILED "+problem))
	}
	if r.Partial {
		problems = append(problems, fmt.Errorf("%w: the report is partial", cli.ErrInterrupted))
	}
	return errors.Join(problems...)
}

var credentials = regexp.MustCompile(`://[^/\s]*@`)

// commandLine is the command line without credentials.
func commandLine(args []string) string {
	args = append([]string{"delayer-bench"}, args[min(1, len(args)):]...)
	return credentials.ReplaceAllString(strings.Join(args, " "), "://…@")
}

// show shows the progress: one line for each run, and on a terminal which one goes on.
func show(d *cli.Display, e bench.Event) {
	step := fmt.Sprintf("[%*d/%d]", len(fmt.Sprint(e.Steps)), e.Step, e.Steps)
	switch {
	case e.Done != nil:
		d.Logf("%s %-*s  %s", step, nameWidth, e.Name, outcome(e))
	case d.Live():
		d.Draw(step + " " + e.Name + " …")
	}
}

func outcome(e bench.Event) string {
	if e.Skipped != "" {
		return "skipped: " + e.Skipped
	}
	run := e.Done
	if problem := run.Problem(); problem != "" {
		return "FAILED: " + problem
	}
	if run.Delivered < run.Published {
		return fmt.Sprintf("only %d of %d arrived", run.Delivered, run.Published)
	}
	switch {
	case len(run.Probes) > 0:
		return fmt.Sprintf("in time up to %.0f msg/s", run.MaxRate)
	case run.Scenario == "cost":
		return fmt.Sprintf("%.0f msg/s, broker %.0f µs and client %.0f µs a message", run.PublishPerS, run.BrokerCPU, run.ProcessCPU)
	case run.MemoryPerMessage > 0:
		return fmt.Sprintf("%.0f B of memory each, p99 %.0f ms late", run.MemoryPerMessage, run.Lateness.P99)
	}
	return fmt.Sprintf("p50 %.0f ms late, p99 %.0f ms", run.Lateness.P50, run.Lateness.P99)
}

// nameWidth aligns what follows a run's name.
const nameWidth = len("accuracy, NServiceBus ladder, classic")

type renderCmd struct {
	Report  string `arg:"" placeholder:"FILE" help:"The report, report.json."`
	Out     string `xor:"where" placeholder:"DIR" help:"Where to write report.html and report.bench. Default: the report's folder."`
	Picture string `xor:"where" placeholder:"FILE.svg" help:"Write only this picture of the report, for a README."`
}

func (c *renderCmd) Run(s streams) error {
	text, err := os.ReadFile(c.Report)
	if err != nil {
		return err
	}
	r, err := report.Read(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", c.Report, err)
	}
	if c.Picture != "" {
		return write(s, filepath.Dir(c.Picture), outputFile{filepath.Base(c.Picture), r.WritePicture})
	}
	return write(s, cmp.Or(c.Out, filepath.Dir(c.Report)), pages(r)...)
}

// pages are the forms of a report that are made from report.json.
func pages(r *report.Report) []outputFile {
	return []outputFile{{"report.html", r.WriteHTML}, {"report.bench", r.WriteBenchfmt}}
}

type outputFile struct {
	name  string
	write func(io.Writer) error
}

func write(s streams, dir string, files ...outputFile) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		path := filepath.Join(dir, file.name)
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := errors.Join(file.write(f), f.Close()); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "wrote", path)
	}
	return nil
}
