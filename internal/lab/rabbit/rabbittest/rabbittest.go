// Package rabbittest gives the tests of a package a RabbitMQ.
//
//	func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }
//
// It starts when the first test asks for it by [Broker], and is shared by the package's tests. What
// was skipped is said at the end; with DELAYER_TEST_SUMMARY set to a file's name it is appended there
// too, since go test hides what passing packages print.
//
// A test's private node keeps its data in memory where there is room: no test loses more than the
// node's process, and waiting for the disk takes long. A benchmark's keeps it on disk.
package rabbittest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

var shared struct {
	options rabbit.Options
	start   sync.Once
	broker  *rabbit.Broker
	err     error

	mu      sync.Mutex
	skipped map[string][]string // tests by reason
}

// Main runs the tests of m, a *testing.M or what wraps one, ends the broker, looks for goroutines
// that were left, but for those that theirs names, and exits.
func Main(m interface{ Run() int }, o rabbit.Options, theirs ...goleak.Option) {
	shared.options = o
	code := m.Run()
	var complaints []string
	if b := shared.broker; b != nil {
		complaints = b.Complaints()
		if err := b.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "broker: %v\n", err)
			code = max(code, 1)
		}
	}
	if err := left(theirs); err != nil && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines are left after the tests:\n%v\n", err)
		code = 1
	}
	if code != 0 && len(complaints) > 0 {
		fmt.Printf("what the broker complained of:\n%s\n", strings.Join(complaints, "\n"))
	}
	if err := summarize(); err != nil {
		fmt.Fprintf(os.Stderr, "summary: %v\n", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// left returns the goroutines that are left. Some end a while after what they are of, as one that
// closes a connection.
func left(but []goleak.Option) (err error) {
	// A proxy leaves these where a connection was closed while data of it waited.
	for _, f := range []string{".(*ToxicLink).read", "/toxics.(*BandwidthToxic).Pipe", "/toxics.(*NoopToxic).Pipe"} {
		but = append(but, goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2"+f))
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		if err = goleak.Find(but...); err == nil { // which looks for half a second
			break
		}
	}
	return err
}

// Broker returns the broker that the package's tests share. Without one the test fails if CI=true
// or if a broker was named; otherwise, and with DELAYER_BROKER=none, it is skipped, which the
// summary says.
func Broker(t testing.TB) *rabbit.Broker {
	t.Helper()
	shared.start.Do(func() {
		shared.options.InMemory = isTest(t)
		shared.broker, shared.err = rabbit.Start(context.Background(), shared.options)
		if shared.err == nil {
			fmt.Printf("broker: %v\n", shared.broker)
		}
	})
	check(t, shared.err)
	return shared.broker
}

// isTest tells a test from a benchmark, which measures the disk as well.
func isTest(t testing.TB) bool {
	_, benchmark := t.(*testing.B)
	return !benchmark
}

// Own returns a broker for this test alone, to be stopped and killed while others run. It is a
// private node or a container even where AMQP_URL names another one, and ends with the test.
func Own(t testing.TB, o rabbit.Options) *rabbit.Broker {
	t.Helper()
	o.InMemory = isTest(t)
	choices := []string{cmp.Or(o.Choice, os.Getenv("DELAYER_BROKER"), rabbit.Given)}
	if choices[0] == rabbit.Given {
		choices = []string{rabbit.Node, rabbit.Docker} // a node is ready in seconds, and killed where it can be seen
	}
	var b *rabbit.Broker
	var err error
	for _, o.Choice = range choices {
		if b, err = rabbit.Start(context.Background(), o); !errors.Is(err, rabbit.ErrNone) {
			break
		}
	}
	check(t, err)
	t.Logf("broker: %v", b)
	endsWith(t, b)
	return b
}

// endsWith closes a test's broker with the test. Where that has failed it says what the broker
// complained of.
func endsWith(t testing.TB, b *rabbit.Broker) {
	t.Cleanup(func() {
		if said := b.Complaints(); t.Failed() && len(said) > 0 {
			t.Logf("what %v complained of:\n%s", b, strings.Join(said, "\n"))
		}
		if err := b.Close(); err != nil {
			t.Errorf("closing the test's broker: %v", err)
		}
	})
}

// Clocked returns a private node for this test alone whose clock [rabbit.Broker.Forward] puts
// forward. It ends with the test. Where there is none to be had, the test is skipped: other tests
// need none.
func Clocked(t testing.TB, o rabbit.Options) *rabbit.Broker {
	t.Helper()
	o.InMemory, o.Choice, o.Clock = isTest(t), rabbit.Node, true
	b, err := rabbit.Start(context.Background(), o)
	if errors.Is(err, rabbit.ErrNone) {
		Skipf(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	endsWith(t, b)
	return b
}

// Alone returns a broker to be stopped and killed by a test that runs beside no other: one that
// does not call t.Parallel. It is the package's, where that is ours, and otherwise one of the
// test's own. A test that fails may leave it stopped, paused or under an alarm: the next finds it
// started again.
func Alone(t testing.TB) *rabbit.Broker {
	t.Helper()
	b := Ours(t)
	t.Cleanup(func() {
		if b != shared.broker || !t.Failed() {
			return
		}
		if err := errors.Join(b.Kill(), b.Run(context.Background())); err != nil {
			t.Errorf("starting the package's broker again: %v", err)
		}
	})
	return b
}

// Ours returns a broker that may be given users, policies and virtual hosts while other tests use
// it: the package's, where that is ours, and otherwise one of the test's own.
func Ours(t testing.TB) *rabbit.Broker {
	t.Helper()
	if b := Broker(t); b.Owned() {
		return b
	}
	return Own(t, shared.options)
}

// check ends the test if there is no broker: by a skip only where nobody expects one.
func check(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	choice := os.Getenv("DELAYER_BROKER")
	expected := choice != "" || os.Getenv("CI") == "true"
	if errors.Is(err, rabbit.ErrNone) && (choice == rabbit.None || !expected) {
		Skipf(t, "%v", err)
	}
	t.Fatal(err)
}

// DelayedMessages is the plugin that backend/plugin needs. No broker has it by itself.
const DelayedMessages = "rabbitmq_delayed_message_exchange"

// NeedHiding returns the package's broker if it hides messages until their time, and skips the test
// otherwise.
func NeedHiding(t testing.TB) *rabbit.Broker {
	t.Helper()
	b := Broker(t)
	if !b.From(4, 4) {
		Skipf(t, "RabbitMQ %s does not hide messages until their time: 4.4 does", b.Version())
	}
	return b
}

// NeedPlugin returns the package's broker if it has the plugin, and skips the test otherwise.
func NeedPlugin(t testing.TB, name string) *rabbit.Broker {
	t.Helper()
	b := Broker(t)
	if !b.HasPlugin(name) {
		Skipf(t, "the broker has no plugin %s", name)
	}
	return b
}

// Skipf skips the test and names it, with the reason, in the summary.
func Skipf(t testing.TB, format string, args ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, args...)
	first, _, _ := strings.Cut(reason, "\n")
	first = strings.TrimSuffix(first, ".")
	shared.mu.Lock()
	if shared.skipped == nil {
		shared.skipped = map[string][]string{}
	}
	shared.skipped[first] = append(shared.skipped[first], t.Name())
	shared.mu.Unlock()
	t.Skip(reason)
}

// summarize prints what was skipped, a line for each reason, and appends it, with the broker, to the
// file for the whole run: all in one piece, because packages may be tested at the same time.
func summarize() error {
	var lines []string
	for _, reason := range slices.Sorted(maps.Keys(shared.skipped)) {
		lines = append(lines, fmt.Sprintf("skipped: %s: %s", strings.Join(shared.skipped[reason], ", "), reason))
		fmt.Println(lines[len(lines)-1])
	}
	if shared.broker != nil {
		lines = append([]string{fmt.Sprintf("broker: %v", shared.broker)}, lines...)
	}
	name := os.Getenv("DELAYER_TEST_SUMMARY")
	if name == "" || len(lines) == 0 {
		return nil
	}
	test := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "%s: %s\n", test, line)
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text.String())
	return errors.Join(err, file.Close())
}

// Prefix returns the beginning of names for a test's exchanges and queues, unique to this call, so
// that tests share a broker, also one that is not ours, without seeing each other. Nothing is
// deleted.
func Prefix(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/# *.", r) {
			return '-'
		}
		return r
	}, t.Name())
	return "t-" + strings.ToLower(rand.Text()[:8]) + "-" + name[:min(len(name), 40)]
}
