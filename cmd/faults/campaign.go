package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/postgres"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// options are the command's flags.
type options struct {
	Messages  int           `default:"5000" help:"Confirmed messages of each fault and backend, at least."`
	Rate      int           `default:"150" help:"Messages a second of each backend; those of one fault run at the same time."`
	Times     int           `default:"20" help:"How often brokers and controllers are killed and connections cut."`
	Hold      time.Duration `default:"35s" help:"How long a fault lasts; a missed heartbeat takes 30 s."`
	Patience  time.Duration `help:"How long nothing may arrive before missing messages are reported. Default: as late as they may be, twice --redeliver and two minutes."`
	Long      time.Duration `help:"Delay one message in eight by this, beside the usual seconds; 0 leaves it out. 160s takes them through slots of minutes."`
	Redeliver time.Duration `help:"After how long the broker repeats a dead-lettering that was unroutable; 0 leaves its default, 3m."`
	Churn     time.Duration `default:"10m" help:"How long to open, use and close Delayers; 0 leaves it out."`
	Fault     string        `help:"Only the faults whose names match this regular expression; churn is one."`
	Backend   string        `help:"Only the backends whose names match this regular expression."`
	Seed      uint64        `help:"Seed of the random moments. Default: random, and printed."`
	Write     string        `placeholder:"FILE" help:"Write the table between the markers of this file."`
	Verbose   bool          `help:"Print each step."`
	JSON      bool          `hidden:"" name:"json" help:"Rows as JSON on standard output, for the program with the wrong clock."`
}

// A campaign is one run of the command.
type campaign struct {
	options
	out    io.Writer
	plan   faults.Campaign
	began  time.Time
	broker string       // what it was
	rows   []faults.Row // of this kind of broker: a section of the page
	all    []faults.Row
	failed bool
}

// run does the campaign. It returns false if a fault broke a promise.
func run(ctx context.Context, o options, out io.Writer) (ok bool, err error) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	chosen, err := regexp.Compile(o.Backend)
	if err != nil {
		return false, err
	}
	folder, err := os.MkdirTemp("", "delayer-faults-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	command := filepath.Join(folder, "delayer")
	if said, err := exec.CommandContext(ctx, "go", "build", "-o", command, "github.com/delayer-go/delayer/cmd/delayer").CombinedOutput(); err != nil {
		return false, fmt.Errorf("go build: %w: %s", err, said)
	}
	c := &campaign{options: o, out: out, began: time.Now()}
	database := ""
	if chosen.MatchString(outboxName) {
		switch own, err := postgres.Start(ctx); {
		case err == nil:
			defer func() { _ = own.Close() }()
			database = own.URL()
		case errors.Is(err, postgres.ErrNone):
			fmt.Fprintf(out, "skipped: outbox: %v\n", err)
		default:
			return false, err
		}
	}
	c.prepare(chosen, subjects(command, database, o.Long))
	fmt.Fprintf(out, "seed %d\n%s\n", o.Seed, faults.Heading())
	if err := errors.Join(c.oneNode(ctx), c.clocks(ctx, folder), c.cluster(ctx)); err != nil {
		return false, err
	}
	if o.JSON {
		return !c.failed, c.writeJSON()
	}
	fmt.Fprintf(out, "%v altogether\n", time.Since(c.began).Round(time.Second))
	return !c.failed, nil
}

// prepare plans the campaign, with the chosen of all subjects.
func (c *campaign) prepare(chosen *regexp.Regexp, all []faults.Subject) {
	c.plan = faults.Campaign{
		Load:     faults.Load{Publishers: 16, Rate: c.Rate, Patience: 5 * time.Second},
		Messages: c.Messages, Times: c.Times, Hold: c.Hold, Patience: c.Patience, Seed: c.Seed, Logf: c.logf,
		Redeliver: c.Redeliver,
	}
	for _, s := range all {
		if chosen.MatchString(s.Name) {
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

// oneNode does the faults of one broker, and churn.
func (c *campaign) oneNode(ctx context.Context) error {
	all := slices.Concat(faults.OneNode(), faults.Destinations(), faults.Strangers(), faults.Controllers(), faults.Services())
	todo, err := c.chosen(all)
	if err != nil || len(todo) == 0 && !c.churns() {
		return err
	}
	b, err := rabbit.Start(ctx, c.brokerOptions())
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	c.plan.Broker, c.broker = b, b.String()
	if !b.HasPlugin("rabbitmq_delayed_message_exchange") {
		c.without("plugin")
	}
	return errors.Join(c.each(ctx, todo), c.churn(ctx, b))
}

// without leaves out a backend that needs a plugin, where the broker lacks it.
func (c *campaign) without(name string) {
	var rest []faults.Subject
	for _, s := range c.plan.Subjects {
		if s.Name != name {
			rest = append(rest, s)
		}
	}
	if len(rest) < len(c.plan.Subjects) {
		fmt.Fprintf(c.out, "skipped: %s: the broker does not have the plugin\n", name)
	}
	c.plan.Subjects = rest
}

// cluster does the faults of three nodes.
func (c *campaign) cluster(ctx context.Context) error {
	todo, err := c.chosen(faults.ThreeNodes())
	if err != nil || len(todo) == 0 {
		return err
	}
	if o := c.brokerOptions(); o.Choice != rabbit.Node {
		fmt.Fprintln(c.out, "skipped: the cluster: it needs private nodes (DELAYER_BROKER=node)")
		return nil
	}
	cluster, err := rabbit.StartCluster(ctx, c.brokerOptions(), 3)
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Close() }()
	c.plan.Cluster = cluster
	c.without("plugin")
	c.broker, c.rows = cluster.String(), nil // a section of its own
	return c.each(ctx, todo)
}

func (c *campaign) chosen(all []faults.Fault) (todo []faults.Fault, err error) {
	pattern, err := regexp.Compile(c.Fault)
	for _, f := range all {
		if err == nil && pattern.MatchString(f.Name) {
			todo = append(todo, f)
		}
	}
	return todo, err
}

// each does the faults and prints their rows. If a fault cannot be done, it says so and goes on.
func (c *campaign) each(ctx context.Context, todo []faults.Fault) error {
	for _, f := range todo {
		rows, err := c.plan.Run(ctx, f)
		for _, r := range rows {
			c.print(r)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.failed = true
			fmt.Fprintf(c.out, "%s: FAILED: %v\n", f.Name, err)
		}
		if len(rows) > 0 {
			for _, note := range rows[0].Notes {
				fmt.Fprintln(c.out, "    "+note)
			}
			c.logf("%s took %v", f.Name, rows[0].Took.Round(time.Second))
		}
		if err := c.write(); err != nil { // after each, so that an interrupted campaign keeps its results
			return err
		}
	}
	return nil
}

func (c *campaign) print(r faults.Row) {
	c.rows, c.all = append(c.rows, r), append(c.all, r)
	c.failed = c.failed || len(r.Problems)+len(r.Slow) > 0
	fmt.Fprintln(c.out, r)
	if text := r.Outcomes(); c.Verbose && text != "" {
		fmt.Fprintln(c.out, text)
	}
}

// write puts the table of what was done so far where Write says. What some backends were tried with
// alone has a section of its own, and replaces no row of the others.
func (c *campaign) write() error {
	if c.Write == "" || len(c.rows) == 0 {
		return nil
	}
	run := fmt.Sprintf("`%s`, %s, seed %d", commandLine(os.Args[1:]), c.began.Format(time.DateOnly), c.Seed)
	section := c.broker
	if c.Backend != "" {
		var only []string
		for _, s := range c.plan.Subjects {
			if !slices.Contains(only, s.Name) {
				only = append(only, s.Name)
			}
		}
		section += ": " + strings.Join(only, ", ")
	}
	return faults.UpdatePage(c.Write, section, run, c.rows)
}

// commandLine is that which repeats the campaign, without this machine's paths.
func commandLine(args []string) string {
	command := "go run ./cmd/faults"
	for i := 0; i < len(args); i++ {
		switch name, _, joined := strings.Cut(args[i], "="); {
		case name == "--verbose", name == "--write" && joined:
		case name == "--write":
			i++ // and the file
		case strings.ContainsAny(args[i], "|^$*?()[];&\" "): // of a pattern
			command += " '" + args[i] + "'"
		default:
			command += " " + args[i]
		}
	}
	return command
}
