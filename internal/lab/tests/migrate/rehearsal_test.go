package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/migrate"
)

// The series of messages.
const (
	pending = "pending" // in the plugin before the migration begins
	days    = "days"    // too, and still there when it ends: due in far
	live    = "live"    // published while it runs
)

// far is when the last of the series days is due, which no rehearsal awaits. It is an hour, which
// needs a short ladder.
const far = time.Hour

// A rehearsal is one way off the plugin, with the program delayer as an operator runs it.
type rehearsal struct {
	*rig
	fillers []*rabbittest.Rig // fill the plugin, in turn
	cfg     backend.Config
	config  string // the file
	program string
	kind    string // of the exchange
	account *account.Account[string]
	turn    int // of kills
}

// TestRehearsal goes each way off the plugin with messages pending, publishers and consumers that
// go on, and a tool that is killed in every step.
func TestRehearsal(t *testing.T) {
	needPlugin(t)
	program := build(t)
	kind := topicOrFanout(t)
	for name, way := range map[string]struct {
		goes     func(*rehearsal)
		strategy string
	}{
		"code":  {(*rehearsal).code, shortLadder()},
		"port":  {(*rehearsal).port, "backend: controller"}, // as in the runbook
		"serve": {(*rehearsal).serve, shortLadder()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rehearse(t, needPlugin(t), program, kind, way.strategy)
			way.goes(r)
			r.holds()
		})
	}
}

// shortLadder is no longer than it must be: each queue is a Raft group.
func shortLadder() string {
	var steps []string
	for step := 100 * time.Millisecond; step < far; step *= 2 {
		steps = append(steps, step.String())
	}
	return fmt.Sprintf("backend: binaryladder\nbinaryladder: {tick: 100ms, steps: %q}", strings.Join(steps, ","))
}

// rehearse declares an exchange with a queue that is consumed, and writes the configuration file.
func rehearse(t testing.TB, b *rabbit.Broker, program, kind, strategy string) *rehearsal {
	r := &rehearsal{rig: newRigAt(t, b, "/"), program: program, kind: kind, account: account.New[string](time.Now())}
	r.fillers = []*rabbittest.Rig{r.Rig}
	text := fmt.Sprintf(`url: %q
management: %q
prefix: %s
%s
serve:
  exchanges:
    - {name: %q, type: %s, to: %q}
`, b.URL(), b.Management(), r.Prefix, strategy, r.name, kind, r.target())
	r.config = filepath.Join(r.TempDir(), "delayer.yaml")
	require.NoError(r, os.WriteFile(r.config, []byte(text), 0o600))
	var err error
	r.cfg, err = backend.Load(r.config)
	require.NoError(r, err)
	r.cfg.Logger = slog.New(slog.DiscardHandler) // each failure is a publisher's error
	t.Cleanup(func() { rabbittest.Remove(t, r.cfg) })
	r.delayed(kind, false, nil)
	r.queue = r.bound("the queue", r.name, "order.new", amqp091.Table{"x-match": "all", "route": "here"})
	deliveries := r.Consume(r.queue)
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for d := range deliveries {
			r.account.Arrive(d.MessageId, r.account.Now())
		}
	})
	t.Cleanup(func() {
		_ = r.Conn.Close()
		consumer.Wait()
	})
	return r
}

// code: the publishers use package migrate already. The exchange is switched in place. The plugin
// delivers what is due soon, and the rest is moved.
func (r *rehearsal) code() {
	stop := r.publishers(migrate.NewPublisher(rabbittest.Open(r, r.cfg)))
	const inDays = 100
	r.fill(pending, 300, 5*time.Second, 35*time.Second)
	r.fill(days, inDays, far*24/25, far)
	r.switches("in-place")
	for range kills[1:] { // in the middle of each of its stages
		r.killed("evacuate", "--leave", "10s")
	}
	r.step("evacuate", "--leave", "10s")
	r.empty()
	stop()
	require.NoError(r, r.account.Await(r.Context(), rabbittest.Patience))
	assert.Len(r, r.inLadder(), inDays)
	r.step("retire")
}

// port: the publishers connect to a proxy, and declare the plugin's exchange before the switch, after
// it, and once the exchange is retired. They do not stop before the end.
func (r *rehearsal) port() {
	const inDays = 100
	r.fill(pending, 300, 5*time.Second, 35*time.Second)
	r.fill(days, inDays, far*24/25, far)
	address, err := rabbit.FreeAddress()
	require.NoError(r, err)
	text, err := os.ReadFile(r.config)
	require.NoError(r, err)
	shared, _, _ := strings.Cut(string(text), "\nserve:\n")
	proxied := filepath.Join(r.TempDir(), "proxied.yaml")
	require.NoError(r, os.WriteFile(proxied, fmt.Appendf(nil, "%s\nserve: {amqp: {listen: %q, take_over: true}}\n", shared, address), 0o600))
	s := r.startServe(proxied)
	at, err := url.Parse(r.cfg.URL)
	require.NoError(r, err)
	at.Host = address
	var conn *amqp091.Connection
	require.Eventually(r, func() bool {
		conn, err = amqp091.Dial(at.String())
		return err == nil
	}, rabbittest.Patience, 10*time.Millisecond)
	defer conn.Close() //nolint:errcheck // the publisher has stopped
	declare := func() {
		ch, err := conn.Channel()
		require.NoError(r, err)
		require.NoError(r, ch.ExchangeDeclare(r.name, "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": r.kind}))
		require.NoError(r, ch.Close())
	}
	declare()
	stop := r.publishers(&rawPublisher{conn: conn})
	r.ends(true, "assess")
	r.switches("in-place")
	declare()
	r.step("evacuate", "--leave", "10s")
	r.empty()
	r.step("retire")
	declare()
	stop()
	require.NoError(r, r.account.Await(r.Context(), rabbittest.Patience))
	assert.NoError(r, s.Process.Signal(syscall.SIGTERM))
	assert.NoError(r, s.Wait())
	out, err := exec.CommandContext(r.Context(), r.program, "status", "--config", r.config,
		"--fail-if", fmt.Sprintf("waiting<%d", inDays), "--fail-if", fmt.Sprintf("waiting>%d", inDays)).CombinedOutput()
	assert.NoError(r, err, string(out))
}

// serve: the publishers know nothing, and do not stop before the end. Meanwhile the processes that
// serve are killed, and one rollback is made.
func (r *rehearsal) serve() {
	stop := r.publishers(&rawPublisher{conn: r.Conn})
	const inDays = 100
	r.fill(pending, 200, 12*time.Second, 24*time.Second)
	r.fill(days, inDays, far*24/25, far)
	r.ends(true, "assess")
	all := []*exec.Cmd{r.startServe(r.config), r.startServe(r.config)} // before the switch, or after it
	r.switches("serve")
	for range kills {
		for i, s := range all {
			const some = 10
			before := r.account.Counts().Arrived
			require.Eventually(r, func() bool { return r.account.Counts().Arrived >= before+some }, rabbittest.Patience, 10*time.Millisecond)
			require.NoError(r, s.Process.Kill())
			_ = s.Wait()
			all[i] = r.startServe(r.config)
		}
	}
	r.step("rollback")
	r.switches("serve")
	r.step("evacuate", "--leave", "10s")
	r.empty()
	r.step("retire")
	stop()
	require.NoError(r, r.account.Await(r.Context(), rabbittest.Patience))
	for _, s := range all {
		assert.NoError(r, s.Process.Signal(syscall.SIGTERM))
		assert.NoError(r, s.Wait())
	}
	assert.Len(r, r.inLadder(), inDays)
}

func (r *rehearsal) switches(mode string) {
	for range kills[1:] {
		r.killed("switch", "--mode", mode, "--yes")
	}
	r.step("switch", "--mode", mode, "--yes")
}

func (r *rehearsal) holds() {
	r.Helper()
	require.NoError(r, r.account.Await(r.Context(), rabbittest.Patience))
	v := r.account.Verdict()
	r.Logf("%d confirmed, %d delivered, %d of them twice", v.Confirmed, v.Delivered, len(v.Twice))
	for what, messages := range map[string][]account.Course[string]{"lost": v.Missing, "early": v.Early, "never published": v.Strangers} {
		assert.Empty(r, messages[:min(5, len(messages))], "%d %s", len(messages), what)
	}
}

func (r *rehearsal) empty() {
	r.Helper()
	require.Eventually(r, func() bool {
		for _, t := range r.tables() {
			for _, w := range t.Exchanges {
				if w.Exchange == r.name {
					return false
				}
			}
		}
		return true
	}, rabbittest.Patience, 500*time.Millisecond)
}

// tables are what waits in the plugin, node by node.
func (r *rehearsal) tables() []node.Table {
	r.Helper()
	tables, err := r.control.Pending(r.Context())
	require.NoError(r, err)
	return tables
}

// inLadder takes all messages out of the Delayer's queues, and counts those of the series days by
// their id.
func (r *rehearsal) inLadder() map[string]int {
	ids := map[string]int{}
	for _, d := range takeAll(r.Rig, r.cfg) {
		if strings.HasPrefix(d.MessageId, days) {
			ids[d.MessageId]++
		}
	}
	return ids
}

// fill publishes messages to the plugin, whose delays are spread over a span.
func (r *rehearsal) fill(series string, n int, from, to time.Duration) {
	r.Helper()
	for turn, filler := range r.fillers {
		var messages []amqp091.Publishing
		for i := turn; i < n; i += len(r.fillers) {
			delay := (from + (to-from)*time.Duration(i)/time.Duration(n)).Truncate(time.Millisecond)
			messages = append(messages, r.ask(fmt.Sprint(series, i), series, delay))
		}
		filler.PublishDelayed(r.name, "order.new", messages...)
		for _, msg := range messages {
			r.account.Answer(msg.MessageId, r.account.Now(), nil)
		}
	}
}

// ask notes a message that is about to be published. A broker counts in milliseconds.
func (r *rehearsal) ask(id, series string, delay time.Duration) amqp091.Publishing {
	now := r.account.At(time.Now().Truncate(time.Millisecond))
	r.account.Ask(account.Course[string]{ID: id, Asked: now, Delay: delay, Aside: series == days})
	return asked(delay, amqp091.Publishing{MessageId: id, DeliveryMode: amqp091.Persistent, Headers: amqp091.Table{"route": "here"}})
}

// A channelPublisher is a channel of amqp091-go, and so is what migrate.NewPublisher returns.
type channelPublisher interface {
	PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error
}

// publishers publish until stop is called. Every fourth message has no delay.
func (r *rehearsal) publishers(p channelPublisher) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			id, delay := fmt.Sprint(live, i), time.Duration(i*37%3000)*time.Millisecond
			if i%4 == 0 {
				delay = 0
			}
			within, end := context.WithTimeout(context.Background(), rabbittest.Patience)
			err := p.PublishWithContext(within, r.name, "order.new", delay == 0, false, r.ask(id, live, delay))
			end()
			r.account.Answer(id, r.account.Now(), err)
			assert.NoError(r, err, "a publisher was refused")
			<-tick.C
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	r.Cleanup(stop)
	return stop
}

// rawPublisher publishes as an application that knows nothing of the migration. It waits for each
// confirm.
type rawPublisher struct {
	conn    *amqp091.Connection
	ch      *amqp091.Channel
	returns chan amqp091.Return
}

func (p *rawPublisher) PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error {
	if p.ch == nil {
		ch, err := p.conn.Channel()
		if err != nil {
			return err
		}
		p.ch, p.returns = ch, ch.NotifyReturn(make(chan amqp091.Return, 1))
		if err := ch.Confirm(false); err != nil {
			return err
		}
	}
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
	if err != nil {
		return err
	}
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		return fmt.Errorf("not confirmed: %w", err)
	}
	select {
	case <-p.returns: // comes before its confirm
		return errors.New("basic.return")
	default:
		return nil
	}
}

var kills = []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}

func build(t testing.TB) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "delayer")
	said, err := exec.Command("go", "build", "-o", program, "github.com/delayer-go/delayer/cmd/delayer").CombinedOutput()
	require.NoError(t, err, "%s", said)
	return program
}

// command is a step of delayer migrate.
func (r *rehearsal) command(step string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	r.Helper()
	args = append(args, "--config", r.config, "--rabbitmqctl", r.Broker.EvalCommand())
	if step != "assess" {
		args = append(args, "--exchange", r.name)
	}
	cmd, said := exec.Command(r.program, append([]string{"migrate", step}, args...)...), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// killed runs a step, and kills it with SIGKILL in the middle.
func (r *rehearsal) killed(step string, args ...string) {
	r.Helper()
	after := kills[r.turn%len(kills)]
	r.turn++
	cmd, said := r.command(step, args...)
	require.NoError(r, cmd.Start())
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		return
	}
	require.NoError(r, err, "%s %v: %s", step, args, said)
}

// step runs a step twice: it is killed in the middle, and then finishes.
func (r *rehearsal) step(step string, args ...string) {
	r.Helper()
	r.killed(step, args...)
	r.ends(true, step, args...)
}

// ends runs a step to its end, well or not, and returns what it says.
func (r *rehearsal) ends(well bool, step string, args ...string) string {
	r.Helper()
	cmd, said := r.command(step, args...)
	err := cmd.Run()
	r.Logf("%s\n%s", step, said)
	require.Equal(r, well, err == nil, "%s %v: %v, %s", step, args, err, said)
	return said.String()
}

// startServe starts a process of delayer serve.
func (r *rehearsal) startServe(config string) *exec.Cmd {
	cmd, said := exec.Command(r.program, "serve", "--config", config), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(r, cmd.Start())
	r.Cleanup(func() {
		_ = cmd.Process.Kill() // where the test ends before
		_ = cmd.Wait()
		r.Logf("serve\n%s", said)
	})
	return cmd
}

// held are messages that wait on a node while it is down.
const held = "held"

// TestCluster migrates an exchange whose messages wait on all three nodes of a cluster. It is
// switched and rolled back while all run, and switched again while one is down: that one is named
// wherever its messages matter, and what it has is neither lost nor forgotten.
func TestCluster(t *testing.T) {
	needPlugin(t)
	t.Parallel()
	c, err := rabbit.StartCluster(t.Context(), rabbit.Options{
		Plugins: []string{rabbittest.DelayedMessages, managementPlugin}, InMemory: true, Logf: t.Logf,
	}, 3)
	if errors.Is(err, rabbit.ErrNone) {
		rabbittest.Skipf(t, "no cluster can be started: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	nodes := c.Nodes()
	if !nodes[0].HasPlugin(rabbittest.DelayedMessages) {
		rabbittest.Skipf(t, "private nodes have no plugin %s", rabbittest.DelayedMessages)
	}
	r := rehearse(t, nodes[0], build(t), "topic", shortLadder())
	for _, b := range nodes[1:] { // the plugin is filled through all nodes in turn
		r.fillers = append(r.fillers, rabbittest.NewRig(t, b))
	}
	const each = 30

	stop := r.publishers(migrate.NewPublisher(rabbittest.Open(r, r.cfg)))
	r.fill(pending, each*len(nodes), time.Second, 5*time.Second)
	r.fill(days, each*len(nodes), far*24/25, far)
	require.Contains(t, r.ends(true, "assess"), "3 nodes")
	for _, step := range [][]string{{"switch", "--mode", "in-place", "--yes"}, {"rollback"}} {
		require.Contains(t, r.ends(true, step[0], step[1:]...), "it was there all the time")
	}
	stop()
	r.holds()
	tables := r.tables()
	require.Len(t, tables, len(nodes))
	for _, table := range tables {
		require.Equal(t, each, table.Exchanges[0].Rows, "on node %s", table.Node)
	}

	r.fill(held, each*len(nodes), 3*time.Second, 6*time.Second)
	down := nodes[len(nodes)-1]
	require.NoError(t, down.Stop(t.Context()))
	at, err := amqp091.ParseURI(down.URL())
	require.NoError(t, err)
	name := fmt.Sprintf("delayer%d@localhost", at.Port) // what a private node calls itself
	require.Contains(t, r.ends(false, "assess"), name+": it does not run")
	require.Contains(t, r.ends(true, "switch", "--mode", "in-place", "--yes"), "it was there all the time")
	require.Contains(t, r.ends(true, "assess"), "what waits on every node: could not be seen")
	for _, step := range [][]string{{"evacuate", "--leave", "10s"}, {"retire"}} {
		require.Contains(t, r.ends(false, step[0], step[1:]...), name)
	}
	require.NoError(t, down.Run(t.Context()))
	r.ends(true, "evacuate", "--leave", "10s")
	r.holds()
	inLadder := r.inLadder()
	assert.Len(t, inLadder, each*len(nodes))
	for id, n := range inLadder {
		assert.Equal(t, 1, n, id)
	}
	r.ends(true, "retire")
}
