// Command campaign shows what examples/notify stands: 10,000 orders whose calls fail at random, with workers
// and relays that are killed and a broker that is restarted, on every backend. It prints the account of
// every order, and starts its own RabbitMQ and PostgreSQL as the tests do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/delayer-go/delayer/internal/notify"
	"github.com/delayer-go/delayer/internal/postgres"
	"github.com/delayer-go/delayer/internal/rabbit"
)

// backends are the settings of each. The tiers are the intervals.
var backends = map[string][]string{
	"binaryladder": nil,
	"fixedtiers":   {"DELAYER_FIXEDTIERS_TIERS=1s,2s,3s", "DELAYER_FIXEDTIERS_ROUNDING=exact"},
	"controller":   nil,
	"plugin":       nil,
}

var intervals = []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}

const delayedMessages = "rabbitmq_delayed_message_exchange"

func main() {
	names := flag.String("backends", "binaryladder,fixedtiers,controller,plugin", "the backends")
	orders := flag.Int("orders", 10_000, "how many orders are saved on each")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "the order and the moments of the faults")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var failed error
	fmt.Printf("seed %d\n", *seed)
	for name := range strings.SplitSeq(*names, ",") {
		err := run(ctx, name, *orders, *seed)
		if err != nil {
			fmt.Fprintf(os.Stderr, "campaign: %s: %v\n", name, err)
		}
		failed = errors.Join(failed, err)
	}
	stop()
	if failed != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, orders int, seed uint64) (err error) {
	env, known := backends[name]
	if !known {
		return errors.New("there is no such backend")
	}
	broker, err := rabbit.Start(ctx, rabbit.Options{Plugins: []string{delayedMessages}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	if name == "plugin" && !broker.HasPlugin(delayedMessages) {
		return fmt.Errorf("%v has no %s", broker, delayedMessages)
	}
	database, err := postgres.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	folder, err := os.MkdirTemp("", "delayer-campaign-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	fmt.Printf("\n%s on %v, %v; %s\n", name, broker, database, load())
	began := time.Now()
	account, err := notify.Campaign{
		Folder: folder, Database: database.URL(), Broker: broker.URL(), Restart: broker.Restart, Name: "campaign",
		Env: append(env, "DELAYER_BACKEND="+name), Orders: orders, Intervals: intervals,
		WorkerKill: 10, RelayKill: 5, Restarts: 2, Random: rand.New(rand.NewPCG(seed, 0)),
		Logf: func(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) },
	}.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%v%v; %s\n", account, time.Since(began).Round(time.Second), load())
	if p := account.Problems(); p != nil {
		return errors.New(strings.Join(p, "; "))
	}
	if account.Resent > 0 && name != "plugin" { // which loses what is due while the broker starts
		return fmt.Errorf("the backend lost %d messages", account.Resent)
	}
	return nil
}

// load is what else this machine does, where the system tells.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load not known"
	}
	return "load " + strings.Fields(string(text))[0]
}
