// Package rabbit starts or finds a real RabbitMQ for tests and benchmarks, the first of these that
// exists:
//
//   - the broker at AMQP_URL. Set but dead is an error, never a reason to take another one;
//   - a container of the image DELAYER_RABBITMQ_IMAGE (rabbitmq:4.0 by default), where a Docker
//     engine on this machine answers and has the image or can pull it;
//   - a private node of the rabbitmq-server on this machine, with its own ports, node name and
//     folder.
//
// DELAYER_BROKER=given, docker or node forces one of them; none starts nothing.
//
// Nothing is left behind, even if the process that called [Start] is killed with SIGKILL. Container
// and node run under a shell script that reads its standard input, the lifeline, whose other end
// this process holds. When that ends, the script ends the broker and removes what it made.
package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options says which broker to start. The zero value is the order described in the package comment.
type Options struct {
	// Logf logs each step, and why a broker was chosen. It may be nil.
	Logf func(format string, args ...any)
	// Plugins are enabled where the broker has them; ask [Broker.HasPlugin] for the outcome.
	Plugins []string
	// Config is further lines of rabbitmq.conf for a broker of our own, behind those in
	// DELAYER_TEST_RABBITMQ_CONFIG. A broker at AMQP_URL has its own.
	Config string
	// Args are arguments of the Erlang VM of a broker of our own, such as [DeadLetterRetry]. A
	// broker at AMQP_URL has its own.
	Args string
	// InMemory keeps the data of a broker of our own in memory, where its machine has room for it.
	// Writing to disk is then free. The data outlives the server's process, but not the machine.
	InMemory bool
	// Clock makes a private node whose clock [Broker.Forward] puts forward. It needs libfaketime;
	// without it, the error of [Start] matches [ErrNone]. Other kinds of brokers have no such
	// clock.
	Clock bool
	// Choice is [Given], [Docker] or [Node] to force one, or [None]; empty means DELAYER_BROKER,
	// else the order.
	Choice string
}

// DeadLetterRetry is the [Options].Args of a broker that dead-letters a message again when it was
// not confirmed within d, instead of three minutes. rabbitmq.conf has no key for it. A d that the
// broker exceeds under load makes messages arrive twice.
func DeadLetterRetry(d time.Duration) string {
	return fmt.Sprintf("-rabbit dead_letter_worker_publisher_confirm_timeout %d", d.Milliseconds())
}

// The values of [Options].Choice and of the environment variable DELAYER_BROKER.
const (
	Given  = "given"
	Docker = "docker"
	Node   = "node"
	None   = "none" // no broker is started, whatever Options.Choice says
)

var (
	// ErrNone means that this machine has no broker and cannot start one.
	ErrNone = errors.New("no RabbitMQ broker available")
	// ErrNotOwned means that a broker that was given was asked for something that is only done to
	// our own.
	ErrNotOwned = errors.New("a broker that was given is not ours to stop, kill or measure")
)

// A Broker is a RabbitMQ that answers. Its methods are safe for concurrent use.
type Broker struct {
	at    *url.URL
	how   string
	about about
	own   *server // nil: the broker at AMQP_URL

	mu   sync.Mutex
	past time.Duration // CPU time of the server processes before the current one
}

// URL is the broker's AMQP URL, with credentials. It stays the same over restarts.
func (b *Broker) URL() string { return b.at.String() }

// Management is the address of the management API, with credentials, or "" where it is not known: a
// broker of our own has it if Options.Plugins names rabbitmq_management.
func (b *Broker) Management() string {
	if b.own == nil || b.own.api == nil {
		return ""
	}
	return b.own.api.String()
}

// Complaints are the last warnings and errors that the server has logged, such as why it closed a
// connection. There are none of a broker at AMQP_URL, whose log is not ours to read.
func (b *Broker) Complaints() []string {
	if b.own == nil {
		return nil
	}
	return b.own.complaints()
}

// How says where the broker comes from: "AMQP_URL", "Docker container (rabbitmq:4.0)" or "private
// node".
func (b *Broker) How() string { return b.how }

// Product is what the broker calls itself: "RabbitMQ".
func (b *Broker) Product() string { return b.about.product }

// Version is the broker's version, such as "3.10.8".
func (b *Broker) Version() string { return b.about.version }

// From reports whether the broker is of this series or a later one.
func (b *Broker) From(major, minor int) bool {
	var first, second int
	_, err := fmt.Sscanf(b.about.version, "%d.%d", &first, &second)
	return err == nil && (first > major || first == major && second >= minor)
}

// Platform is what the broker says that it runs on, such as "Erlang/OTP 25.2.3".
func (b *Broker) Platform() string { return b.about.platform }

// String is what a report says of the broker: "RabbitMQ 3.10.8, private node".
func (b *Broker) String() string {
	return fmt.Sprintf("%s %s, %s", b.Product(), b.Version(), b.How())
}

// Owned reports whether the broker is ours: may be stopped, killed and restarted, and be measured.
func (b *Broker) Owned() bool { return b.own != nil }

// HasPlugin reports whether the plugin is enabled. Of a broker at AMQP_URL that is not known.
func (b *Broker) HasPlugin(name string) bool { return b.own != nil && b.own.hasPlugin(name) }

// ours calls f, by one goroutine at a time, with a broker of our own, and whether it runs.
func (b *Broker) ours(f func(s *server, running bool) error) error {
	if b.own == nil {
		return ErrNotOwned
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return f(b.own, b.own.running())
}

// Run starts the broker again after [Broker.Stop] or [Broker.Kill], on the same port with the same
// data, and returns when it answers.
func (b *Broker) Run(ctx context.Context) error {
	return b.ours(func(s *server, running bool) error {
		if running {
			return nil
		}
		if err := s.run(); err != nil {
			return err
		}
		said, err := b.awaitReady(ctx)
		if b.about == (about{}) { // the same after a restart, and then read by others without the lock
			b.about = said
		}
		return err
	})
}

// Stop shuts the broker down in good order and returns when its process is gone.
func (b *Broker) Stop(ctx context.Context) error { return b.end(ctx, "TERM") }

// Kill ends the broker's process with SIGKILL, as a crash would, and returns when it is gone.
func (b *Broker) Kill() error { return b.end(context.Background(), "KILL") }

func (b *Broker) end(ctx context.Context, signal string) error {
	return b.ours(func(s *server, running bool) error {
		if !running {
			return nil
		}
		if u, err := s.usage(s); err == nil && !u.cumulative {
			b.past += u.cpu
		}
		return s.signal(ctx, signal)
	})
}

// Restart is Stop and Run.
func (b *Broker) Restart(ctx context.Context) error {
	if err := b.Stop(ctx); err != nil {
		return err
	}
	return b.Run(ctx)
}

// Pause holds the broker's process with SIGSTOP: its connections stay open, and nothing answers.
// Kill and Close end a paused broker; Resume it before Stop.
func (b *Broker) Pause() error { return b.hold("pause") }

// Resume lets a paused broker go on.
func (b *Broker) Resume() error { return b.hold("resume") }

func (b *Broker) hold(command string) error {
	return b.ours(func(s *server, running bool) error {
		if !running {
			return errors.New("rabbit: a broker that is down cannot be paused or resumed")
		}
		_, err := s.ask(command, command) // said when it is done
		return err
	})
}

// used is what the broker's processes have used; of a broker that is down, what they had until then.
func (b *Broker) used() (u usage, err error) {
	err = b.ours(func(s *server, running bool) error {
		var err error
		u, err = s.usage(s)
		u.cpu += b.past
		if !running {
			return nil
		}
		return err
	})
	return u, err
}

// CPU is the CPU time, user and system, that the broker's processes have used since Start. What a
// process used between the last look at it and its end is not counted.
func (b *Broker) CPU() (time.Duration, error) {
	u, err := b.used()
	return u.cpu, err
}

// RSS is the resident memory of the broker's processes in bytes.
func (b *Broker) RSS() (int64, error) {
	u, err := b.used()
	return u.rss, err
}

// Disk is the disk space in bytes that the broker's data folder takes: blocks in use, not lengths
// of files, to 1 KiB. It is [ErrNotOwned] of a broker that is not ours.
func (b *Broker) Disk() (bytes int64, err error) {
	err = b.ours(func(s *server, _ bool) error {
		// Files that go while du looks make it fail, and do not matter.
		said, err := s.command(context.Background(), "sh", "-c", `du -sk "$0" 2>/dev/null || true`, s.data)
		if _, scanned := fmt.Sscan(said, &bytes); scanned != nil {
			return errors.Join(fmt.Errorf("rabbit: du said %q", said), err)
		}
		bytes <<= 10
		return nil
	})
	return bytes, err
}

// Ctl runs rabbitmqctl against this broker, or what comes to the same, and returns what it printed.
// RabbitMQ takes connections a moment before it calls itself running. Ctl waits for that.
func (b *Broker) Ctl(ctx context.Context, args ...string) (string, error) {
	if b.own == nil {
		return "", fmt.Errorf("rabbit: no rabbitmqctl: %w", ErrNotOwned)
	}
	const most = 30 * time.Second
	for began := time.Now(); ; time.Sleep(readyPoll) {
		out, err := b.own.rabbitmqctl(ctx, args...)
		if err == nil || !strings.Contains(err.Error(), notRunning) || ctx.Err() != nil || time.Since(began) > most {
			return out, err
		}
	}
}

// notRunning is what rabbitmqctl says of a node that has not started, or has been stopped by
// stop_app.
const notRunning = "requires the 'rabbit' app to be running"

// Suspend makes a quorum queue of the vhost "/" confirm nothing and deliver nothing, as one that
// has lost the majority of its replicas, until resume is called. It is for a single node, on which
// the queue is one process.
func (b *Broker) Suspend(ctx context.Context, queue string) (resume func(context.Context) error, err error) {
	do := func(ctx context.Context, what string) error {
		_, err := b.Ctl(ctx, "eval", fmt.Sprintf("ok = sys:%s('%%2F_%s').", what, queue))
		return err
	}
	return func(ctx context.Context) error { return do(ctx, "resume") }, do(ctx, "suspend")
}

// CtlCommand is the command line, quoted as a shell has it, that runs rabbitmqctl against this
// broker. It is "" where there is none: at AMQP_URL, or without rabbitmqctl beside the server.
func (b *Broker) CtlCommand() string {
	if b.own == nil || b.own.ctl == "" {
		return ""
	}
	return b.commandLine(b.own.ctl)
}

// EvalCommand is a command line that understands `-q eval EXPRESSION` as rabbitmqctl does. Where
// erl_call is there, it starts no virtual machine, which takes a second of processor time.
// Elsewhere it is CtlCommand.
func (b *Broker) EvalCommand() string {
	if b.own == nil {
		return ""
	}
	if _, err := b.own.command(context.Background(), "sh", "-c", "command -v erl_call"); err != nil {
		return b.CtlCommand()
	}
	return b.commandLine("sh", "-c", b.own.erlCall+"-no_result_term -e", "rabbitmqctl")
}

// commandLine runs something where the broker is, quoted as a shell has it.
func (b *Broker) commandLine(words ...string) string {
	line := slices.Concat(b.own.prefix, words)
	for i, word := range line {
		line[i] = "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
	}
	return strings.Join(line, " ")
}

// Close ends a broker of ours and removes all that it left. It may be called more than once.
func (b *Broker) Close() error {
	if b.own == nil {
		return nil
	}
	return b.ours(func(s *server, _ bool) error { return s.close() })
}

type usage struct {
	cpu        time.Duration
	rss        int64
	cumulative bool // cpu includes the server processes before the current one
}
