package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

type options struct {
	Messages  int            `default:"5000" help:"Confirmed messages of each fault and backend, at least."`
	Rate      int            `default:"150" help:"Messages a second of each backend; those of one fault run at the same time."`
	Times     int            `default:"20" help:"How often brokers and controllers are killed and connections cut."`
	Hold      time.Duration  `default:"35s" help:"How long a fault lasts; a missed heartbeat takes 30 s."`
	Redeliver time.Duration  `help:"After how long the broker repeats a dead-lettering that was unroutable; 0 leaves its default, 3m."`
	Fault     *regexp.Regexp `default:"." help:"Only the faults whose names match this regular expression."`
	Backend   *regexp.Regexp `default:"." help:"Only the backends whose names match this regular expression."`
	Seed      uint64         `help:"Seed of the random moments. Default: random, and printed."`
	Out       string         `placeholder:"FOLDER" help:"Write the results into this folder, as JSON: 3.10.json. Those of other faults and backends stay."`
	Verbose   bool           `help:"Print each step."`
	Table     []string       `placeholder:"FILE" help:"Break nothing, and print such results as tables."`
}

type campaign struct {
	options
	out    io.Writer
	plan   faults.Campaign
	began  time.Time
	broker string // "RabbitMQ 3.10.8"
	rows   []faults.Row
	failed bool
}

func run(ctx context.Context, o options, out io.Writer) (ok bool, err error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Out != "" {
		if err := os.MkdirAll(o.Out, 0o755); err != nil { // before an hour of work, not after
			return false, fmt.Errorf("--out: %w", err)
		}
	}
	folder, err := os.MkdirTemp("", "delayer-faults-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	command, err := buildCommand(ctx, folder)
	if err != nil {
		return false, err
	}
	c := &campaign{options: o, out: out, began: time.Now()}
	c.prepare(subjects(command))
	fmt.Fprintf(out, "seed %d, %s\n", o.Seed, c.began.UTC().Format(time.RFC3339))
	if err := errors.Join(c.oneNode(ctx), c.cluster(ctx)); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "%v altogether\n", time.Since(c.began).Round(time.Second))
	return !c.failed, nil
}

// prepare plans the campaign, with the chosen of all subjects.
func (c *campaign) prepare(all []faults.Subject) {
	c.plan = faults.Campaign{
		Load:     faults.Load{Publishers: 16, Rate: c.Rate, Patience: 5 * time.Second},
		Messages: c.Messages, Times: c.Times, Hold: c.Hold, Seed: c.Seed, Logf: c.logf,
		Redeliver: c.Redeliver,
	}
	for _, s := range all {
		if c.Backend.MatchString(s.Name) {
			c.plan.Subjects = append(c.plan.Subjects, s)
		}
	}
}

func (c *campaign) logf(format string, args ...any) {
	if c.Verbose {
		fmt.Fprintf(c.out, "    %s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
	}
}

// brokerOptions are those of a broker of our own: never the one at AMQP_URL.
func (c *campaign) brokerOptions() rabbit.Options {
	o := rabbit.Options{
		Logf: c.logf, Choice: os.Getenv("DELAYER_BROKER"), Plugins: []string{"rabbitmq_delayed_message_exchange"},
	}
	if c.Redeliver > 0 {
		o.Args = rabbit.DeadLetterRetry(c.Redeliver)
	}
	if o.Choice == "" || o.Choice == rabbit.Given {
		o.Choice = rabbit.Node
	}
	return o
}

func (c *campaign) oneNode(ctx context.Context) error {
	const cluster = true
	todo := c.chosen(!cluster)
	if len(todo) == 0 {
		return nil
	}
	b, err := rabbit.Start(ctx, c.brokerOptions())
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	c.plan.Broker, c.broker = b, b.Product()+" "+b.Version()
	if !b.HasPlugin("rabbitmq_delayed_message_exchange") {
		c.without("plugin", "the broker does not have the plugin")
	}
	c.withoutHiding(b)
	return c.each(ctx, todo)
}

// withoutHiding leaves out native where the broker does not hide messages.
func (c *campaign) withoutHiding(b *rabbit.Broker) {
	if !b.From(4, 4) {
		c.without("native", "the broker does not hide messages")
	}
}

// without leaves out a backend that needs what the broker lacks.
func (c *campaign) without(name, why string) {
	all := len(c.plan.Subjects)
	c.plan.Subjects = slices.DeleteFunc(c.plan.Subjects, func(s faults.Subject) bool { return s.Name == name })
	if len(c.plan.Subjects) < all {
		fmt.Fprintf(c.out, "skipped: %s: %s\n", name, why)
	}
}

// cluster does the faults of three nodes.
func (c *campaign) cluster(ctx context.Context) error {
	const cluster = true
	todo := c.chosen(cluster)
	if len(todo) == 0 {
		return nil
	}
	if o := c.brokerOptions(); o.Choice != rabbit.Node {
		fmt.Fprintln(c.out, "skipped: the cluster: it needs private nodes (DELAYER_BROKER=node)")
		return nil
	}
	nodes, err := rabbit.StartCluster(ctx, c.brokerOptions(), 3)
	if err != nil {
		return err
	}
	defer func() { _ = nodes.Close() }()
	b := nodes.Nodes()[0]
	c.plan.Cluster, c.broker = nodes, b.Product()+" "+b.Version()
	c.without("plugin", "the broker does not have the plugin")
	c.withoutHiding(b)
	return c.each(ctx, todo)
}

func (c *campaign) chosen(cluster bool) (todo []faults.Fault) {
	for _, f := range faults.All() {
		if f.Cluster == cluster && c.Fault.MatchString(f.Name) {
			todo = append(todo, f)
		}
	}
	return todo
}

// each does the faults and prints their rows. If a fault cannot be done, it says so and goes on.
func (c *campaign) each(ctx context.Context, todo []faults.Fault) error {
	for _, f := range todo {
		rows, err := c.plan.Run(ctx, f)
		c.print(rows)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.failed = true
			fmt.Fprintf(c.out, "%s: FAILED: %v\n", f.Name, err)
		}
		if err := c.write(); err != nil { // after each, so that an interrupted campaign keeps its results
			return err
		}
	}
	return nil
}

func (c *campaign) print(rows []faults.Row) {
	for _, r := range rows {
		c.rows = append(c.rows, r)
		c.failed = c.failed || len(r.Problems)+len(r.Slow) > 0
		fmt.Fprintln(c.out, r)
	}
}

// write puts what was found so far into the file of the broker's series.
func (c *campaign) write() error {
	if c.Out == "" || len(c.rows) == 0 {
		return nil
	}
	_, version, _ := strings.Cut(c.broker, " ")
	series := strings.SplitN(version, ".", 3)
	file := filepath.Join(c.Out, strings.Join(series[:min(2, len(series))], ".")+".json")
	s, err := readSeries(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Broker = c.broker
	case err != nil:
		return err
	case s.Broker != c.broker:
		return fmt.Errorf("%s is of %s, and this is %s", file, s.Broker, c.broker)
	}
	run := fmt.Sprintf("%s, seed %d: faults %s", c.began.Format(time.DateOnly), c.Seed, strings.Join(os.Args[1:], " "))
	if !slices.Contains(s.Runs, run) {
		s.Runs = append(s.Runs, run)
	}
	for _, r := range c.rows {
		at := slices.IndexFunc(s.Results, func(old faults.Row) bool {
			return old.Fault == r.Fault && old.Backend == r.Backend && old.Queues == r.Queues
		})
		if at < 0 {
			s.Results = append(s.Results, r)
		} else {
			s.Results[at] = r
		}
	}
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
