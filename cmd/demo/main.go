// Command demo shows Delayer at work: a broker of its own, delayer serve with its page, messages
// that wait, and lines to paste. `make demo` runs it.
//
// It leaves nothing behind, even if it is killed: the broker ends with this process, everything
// else is in it, and no file is written.
package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"text/template"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/servecmd"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

func main() {
	cli.Main(func(ctx context.Context, _ []string, _ io.Reader, out, failed io.Writer) int {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			follow(ctx)
			stop()
		}()
		if err := run(ctx, out); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(failed, "demo:", err)
			return cli.Failed
		}
		return cli.OK
	})
}

// follow returns when whoever started this process has ended, such as a make that was killed.
func follow(ctx context.Context) {
	for parent := os.Getppid(); os.Getppid() == parent; {
		if pace.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// A place is where everything of the demo is.
type place struct{ Broker, URL, Management, HTTP, AMQP string }

//go:embed texts
var files embed.FS

// texts are the configuration of delayer serve and what is printed, with what is in a place.
var texts = template.Must(template.ParseFS(files, "texts/*"))

// run shows the demo until ctx ends, and returns when nothing of it is left.
func run(ctx context.Context, out io.Writer) (err error) {
	unset("AMQP_URL") // a broker that was there would keep what is declared
	fmt.Fprintln(out, "A broker starts …")
	broker, err := rabbit.Start(ctx, rabbit.Options{Plugins: []string{"rabbitmq_management"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	unset("DELAYER_") // settings of the user
	page, err := rabbit.FreeAddress()
	if err != nil {
		return err
	}
	proxy, err := rabbit.FreeAddress()
	if err != nil {
		return err
	}
	at := place{broker.String(), strings.TrimSuffix(broker.URL(), "/"), broker.Management(), page, proxy}
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return serve(ctx, at, out) })
	tasks.Go(func() error {
		if err := await(ctx, "http://"+at.HTTP+"/readyz"); err != nil {
			return err
		}
		if err := texts.ExecuteTemplate(out, "welcome.txt", at); err != nil {
			return err
		}
		return live(ctx, at.URL, out)
	})
	return tasks.Wait()
}

// unset removes variables from the environment, by how their names begin.
func unset(prefix string) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, prefix) {
			_ = os.Unsetenv(name)
		}
	}
}

// serve is delayer serve. Its configuration comes through a pipe, as a file would stay if this
// process were killed.
func serve(ctx context.Context, at place, out io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // read only
	if err := errors.Join(texts.ExecuteTemplate(w, "delayer.yaml", at), w.Close()); err != nil {
		return err
	}
	command := servecmd.Serve{Broker: flags.Broker{File: flags.File{Config: fmt.Sprintf("/dev/fd/%d", r.Fd())}}}
	return command.Run(ctx, cli.Streams{Out: out, Err: warnings{out}})
}

// warnings drops the lines of a log that say what goes well.
type warnings struct{ io.Writer }

func (w warnings) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(" level=INFO ")) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// await returns when the address answers with 200.
func await(ctx context.Context, url string) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := pace.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// A message a second that waits for five minutes on average keeps 300 waiting.
const (
	waiting = 300
	longest = 10 * time.Minute
	week    = 7 * 24 * time.Hour

	ours = "demo" // the app id of what the demo publishes
)

// live keeps some hundred messages waiting, and prints those of others that arrive.
func live(ctx context.Context, url string, out io.Writer) error {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the broker ends with it
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := channel.QueueDeclare("demo", true, false, false, false, nil); err != nil {
		return err
	}
	if err := channel.QueueBind("demo", "#", "orders.delivery", false, nil); err != nil {
		return err
	}
	arrived, err := channel.Consume("demo", "", true, false, false, false, nil)
	if err != nil {
		return err
	}
	later := func(longest time.Duration) error {
		return channel.PublishWithContext(ctx, "orders", "demo", false, false, amqp091.Publishing{
			Headers: amqp091.Table{"x-delay": rand.Int64N(longest.Milliseconds())}, AppId: ours, DeliveryMode: amqp091.Persistent,
		})
	}
	for range waiting {
		if err := errors.Join(later(longest), later(week)); err != nil {
			return err
		}
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case m, ok := <-arrived:
			if !ok {
				return errors.New("the connection to the broker has ended")
			}
			if m.AppId != ours {
				fmt.Fprintf(out, "%s  %s\n", time.Now().Format(time.TimeOnly), strings.TrimSpace(string(m.Body)))
			}
		case <-second.C:
			if err := later(longest); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
