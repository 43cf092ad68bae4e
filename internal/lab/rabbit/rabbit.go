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
	// Image is the Docker image; empty means DELAYER_RABBITMQ_IMAGE, else [DefaultImage].
	Image string
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

// DefaultImage is the Docker image used where neither [Options] nor DELAYER_RABBITMQ_IMAGE names
// one.
const DefaultImage = "rabbitmq:4.0"

var (
	// ErrNone means that this machine has no broker and cannot start one.
	ErrNone = errors.New("no RabbitMQ broker available")
	// ErrNotOwned means that the broker at AMQP_URL was asked for something that is only done to
	// our own.
	ErrNotOwned = errors.New("the broker at AMQP_URL is not ours to stop, kill or measure")
)

// host is one kind of broker. Its methods are called by one goroutine at a time.
type host interface {
	how() string
	url() *url.URL
	owned() bool
	hasPlugin(name string) bool
	run(ctx context.Context) error // start the server process; it need not be ready
	ended() <-chan struct{}        // closed when the server process that run started is gone
	logTail() string               // what the server said last
	complaints() []string          // the warnings and errors among what it said
	stop(ctx context.Context) error
	kill() error
	pause(paused bool) error // stop the process without ending it, or let it go on
	usage() (usage, error)
	disk() (bytes int64, err error) // of its data
	ctl(ctx context.Context, args ...string) (string, error)
	ctlCommand() []string  // nil where there is none
	evalCommand() []string // the same
	management() string    // "" where it is not known
	clock() *clock         // nil: the machine's
	close() error
}

// A Broker is a RabbitMQ that answers. Its methods are safe for concurrent use.
type Broker struct {
	host  host
	about about

	mu   sync.Mutex
	past time.Duration // CPU time of the server processes before the current one
}

// URL is the broker's AMQP URL, with credentials. It stays the same over restarts.
func (b *Broker) URL() string { return b.host.url().String() }

// Management is the address of the management API, with credentials, or "" where it is not known: a
// broker of our own has it if Options.Plugins names rabbitmq_management.
func (b *Broker) Management() string { return b.host.management() }

// Complaints are the last warnings and errors that the server has logged, such as why it closed a
// connection. There are none of a broker at AMQP_URL, whose log is not ours to read.
func (b *Broker) Complaints() []string { return b.host.complaints() }

// How says where the broker comes from: "AMQP_URL", "Docker container (rabbitmq:4.0)" or "private
// node".
func (b *Broker) How() string { return b.host.how() }

// Product is what the broker calls itself: "RabbitMQ".
func (b *Broker) Product() string { return b.about.product }

// Version is the broker's version, such as "3.10.8".
func (b *Broker) Version() string { return b.about.version }

// Platform is what the broker says that it runs on, such as "Erlang/OTP 25.2.3".
func (b *Broker) Platform() string { return b.about.platform }

// String is what a report says of the broker: "RabbitMQ 3.10.8, private node".
func (b *Broker) String() string {
	return fmt.Sprintf("%s %s, %s", b.Product(), b.Version(), b.How())
}

// Owned reports whether the broker is ours: may be stopped, killed and restarted, and be measured.
func (b *Broker) Owned() bool { return b.host.owned() }

// HasPlugin reports whether the plugin is enabled. A broker at AMQP_URL is only known to have
// rabbitmq_delayed_message_exchange, which can be seen over AMQP.
func (b *Broker) HasPlugin(name string) bool { return b.host.hasPlugin(name) }

// Run starts the broker again after [Broker.Stop] or [Broker.Kill], on the same port with the same
// data, and returns when it answers.
func (b *Broker) Run(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runLocked(ctx)
}

func (b *Broker) runLocked(ctx context.Context) error {
	if running(b.host) {
		return nil
	}
	if err := b.host.run(ctx); err != nil {
		return err
	}
	said, err := awaitReady(ctx, b.host)
	if b.about == (about{}) { // the same after a restart, and then read by others without the lock
		b.about = said
	}
	return err
}

// Stop shuts the broker down in good order and returns when its process is gone.
func (b *Broker) Stop(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopLocked(ctx)
}

func (b *Broker) stopLocked(ctx context.Context) error {
	if !b.Owned() {
		return ErrNotOwned
	}
	if !running(b.host) {
		return nil
	}
	b.keepUsage()
	return b.host.stop(ctx)
}

// Kill ends the broker's process with SIGKILL, as a crash would, and returns when it is gone.
func (b *Broker) Kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.Owned() {
		return ErrNotOwned
	}
	if !running(b.host) {
		return nil
	}
	b.keepUsage()
	return b.host.kill()
}

// Pause holds the broker's process with SIGSTOP: its connections stay open, and nothing answers.
// Kill and Close end a paused broker; Resume it before Stop.
func (b *Broker) Pause() error { return b.setPaused(true) }

// Resume lets a paused broker go on.
func (b *Broker) Resume() error { return b.setPaused(false) }

func (b *Broker) setPaused(paused bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.Owned():
		return ErrNotOwned
	case !running(b.host):
		return errors.New("rabbit: a broker that is down cannot be paused or resumed")
	}
	return b.host.pause(paused)
}

// Restart is Stop and Run.
func (b *Broker) Restart(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.stopLocked(ctx); err != nil {
		return err
	}
	return b.runLocked(ctx)
}

// CPU is the CPU time, user and system, that the broker's processes have used since Start. What a
// process used between the last look at it and its end is not counted.
func (b *Broker) CPU() (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.host.usage()
	if err != nil && !running(b.host) {
		err = nil // it is down: past is all there is
	}
	return b.past + u.cpu, err
}

// RSS is the resident memory of the broker's processes in bytes.
func (b *Broker) RSS() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.host.usage()
	return u.rss, err
}

// Written is how many bytes the broker's processes have had written to disk since the last Start,
// as Linux counts them; 0 where that is not told, as of a container.
func (b *Broker) Written() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, err := b.host.usage()
	return u.written, err
}

// Ctl runs rabbitmqctl against this broker, or what comes to the same, and returns what it printed.
// RabbitMQ takes connections a moment before it calls itself running. Ctl waits for that.
func (b *Broker) Ctl(ctx context.Context, args ...string) (string, error) {
	const most = 30 * time.Second
	for began := time.Now(); ; time.Sleep(readyPoll) {
		out, err := b.host.ctl(ctx, args...)
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
func (b *Broker) CtlCommand() string { return line(b.host.ctlCommand()) }

// EvalCommand is a command line that understands `-q eval EXPRESSION` as rabbitmqctl does. Where
// the host has a way, it starts no virtual machine, which takes a second of processor time.
// Elsewhere it is CtlCommand.
func (b *Broker) EvalCommand() string { return line(b.host.evalCommand()) }

// line is a command line of words, quoted as a shell has it.
func line(words []string) string {
	for i, word := range words {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
	}
	return strings.Join(words, " ")
}

// Disk is the disk space in bytes that the broker's data folder takes: blocks in use, not lengths
// of files, to 1 KiB. It is [ErrNotOwned] of a broker that is not ours.
func (b *Broker) Disk() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.host.disk()
}

// Close ends a broker of ours and removes all that it left. It may be called more than once.
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.host.close()
}

// keepUsage remembers what the process used that is about to end.
func (b *Broker) keepUsage() {
	if u, err := b.host.usage(); err == nil && !u.cumulative {
		b.past += u.cpu
	}
}

// usage is what a broker has used up to now.
type usage struct {
	cpu        time.Duration
	rss        int64
	written    int64 // to disk; 0 where that is not known
	cumulative bool  // cpu includes the server processes before the current one
}

func running(h host) bool {
	select {
	case <-h.ended():
		return false
	default:
		return true
	}
}

// pluginSet is the names of the enabled plugins.
type pluginSet []string

func (p pluginSet) hasPlugin(name string) bool { return slices.Contains(p, name) }
