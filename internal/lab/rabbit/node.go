//go:build unix

package rabbit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed node.sh
var nodeScript string

// privateNode is a rabbitmq-server of our own, as a child of this process.
type privateNode struct {
	*lifeline
	pluginSet
	install install
	folder  string
	ports   nodePorts
	env     []string
	ahead   *clock // nil: its clock is the machine's

	script *exec.Cmd
	gone   chan struct{} // closed when the script has ended
	pid    int           // of the current Erlang VM
}

func startSpec(ctx context.Context, spec nodeSpec, o Options) (*Broker, error) {
	in, err := findInstall()
	if err != nil {
		return nil, err
	}
	n, err := newNode(in, spec)
	if err != nil {
		return nil, err
	}
	o.Logf("starting a private node of %s", in.server)
	b, err := begin(ctx, n, o)
	if err == nil && n.ahead != nil {
		if err = settleClock(ctx, b); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, err
}

// newNode prepares the folder and starts the script, which from then on owns the folder.
func newNode(in install, spec nodeSpec) (*privateNode, error) {
	folder, err := os.MkdirTemp(nodeRoot(spec.options.InMemory), "delayer-rabbit-")
	if err != nil {
		return nil, fmt.Errorf("rabbit: private node: %w", err)
	}
	n := &privateNode{
		lifeline:  newLifeline(),
		pluginSet: in.available(spec.options.Plugins),
		install:   in, folder: folder, ports: spec.ports,
		gone: make(chan struct{}),
	}
	args := spec.options.Args
	if spec.options.Clock {
		if n.ahead, err = newClock(folder); err != nil {
			return nil, errors.Join(err, os.RemoveAll(folder))
		}
		args = strings.TrimSpace(args + " " + clockArgs)
	}
	n.env = nodeEnvironment(folder, spec.ports, args)
	if spec.guest {
		n.install.epmd = ""
	}
	if err := writeNodeFiles(folder, n.pluginSet, spec); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if err := n.startScript(); err != nil {
		return nil, errors.Join(fmt.Errorf("rabbit: private node: %w", err), os.RemoveAll(folder))
	}
	return n, nil
}

func (n *privateNode) startScript() error {
	n.script = exec.Command("sh", "-c", nodeScript, "node.sh", n.folder, n.install.epmd, n.install.server)
	n.script.Env = append(slices.Clip(n.env), preload(n.pluginSet))
	if n.ahead != nil {
		n.script.Env = append(n.script.Env, n.ahead.environment()...)
	}
	n.script.Dir = n.folder
	n.script.Stdout = n.lifeline
	n.script.Stderr = n.lifeline
	// A group of its own: an interrupt typed at the terminal ends us, and only then, in order, the
	// broker.
	n.script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The VM's helpers hold the output open for a moment after its end.
	n.script.WaitDelay = time.Second
	in, err := n.script.StdinPipe()
	if err != nil {
		return err
	}
	n.in = in
	if err := n.script.Start(); err != nil {
		return err
	}
	go func() {
		defer close(n.gone)
		_ = n.script.Wait()
		n.lost()
	}()
	return nil
}

func (n *privateNode) how() string { return "private node" }
func (n *privateNode) owned() bool { return true }

func (n *privateNode) clock() *clock { return n.ahead }

func (n *privateNode) url() *url.URL {
	u := &url.URL{
		Scheme: "amqp", User: url.UserPassword("guest", "guest"),
		Host: loopback + ":" + strconv.Itoa(n.ports.amqp), Path: "/",
	}
	if n.ahead != nil {
		u.RawQuery = "heartbeat=0" // two steps forward would be two that were missed
	}
	return u
}

func (n *privateNode) management() string {
	if !n.hasPlugin("rabbitmq_management") {
		return ""
	}
	return (&url.URL{Scheme: "http", User: url.UserPassword("guest", "guest"), Host: loopback + ":" + strconv.Itoa(n.ports.management)}).String()
}

func (n *privateNode) run(context.Context) error {
	if err := n.lifeline.run(); err != nil {
		return err
	}
	fields, err := n.answer("up", n.gone)
	if err != nil {
		return err
	}
	n.pid, err = strconv.Atoi(strings.Join(fields, " "))
	return err
}

// stop asks the VM with SIGTERM, which shuts RabbitMQ down in order and needs no rabbitmqctl.
func (n *privateNode) stop(ctx context.Context) error {
	return n.signal(ctx, syscall.SIGTERM)
}

func (n *privateNode) kill() error {
	return n.signal(context.Background(), syscall.SIGKILL)
}

func (n *privateNode) pause(paused bool) error {
	s := syscall.SIGCONT
	if paused {
		s = syscall.SIGSTOP
	}
	if err := syscall.Kill(n.pid, s); err != nil {
		return fmt.Errorf("rabbit: %v to the private node: %w", s, err)
	}
	for deadline := time.Now().Add(pausedWithin); paused && !isPaused(n.pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("rabbit: the private node goes on %v after %v", pausedWithin, s)
		}
	}
	return nil
}

// pausedWithin is how long a signal may take on a busy machine.
const pausedWithin = 10 * time.Second

// signal sends a signal that ends the VM and waits for that end.
func (n *privateNode) signal(ctx context.Context, s syscall.Signal) error {
	ended := n.ended()
	if err := syscall.Kill(n.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("rabbit: %v to the private node: %w", s, err)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rabbit: the private node does not end after %v: %w", s, ctx.Err())
	}
}

func (n *privateNode) usage() (usage, error) { return treeUsage(n.pid) }

func (n *privateNode) disk() (int64, error) {
	out, err := exec.Command("du", "-sk", filepath.Join(n.folder, "data")).Output()
	return diskUsed(string(out), err)
}

func (n *privateNode) ctl(ctx context.Context, args ...string) (string, error) {
	if !running(n) { // rabbitmqctl takes a second to find out
		return "", fmt.Errorf("rabbit: rabbitmqctl %s: the private node is down", strings.Join(args, " "))
	}
	if out, ok := n.evaluate(ctx, args); ok {
		return out, nil
	}
	if n.install.ctl == "" {
		return "", fmt.Errorf("rabbit: there is no rabbitmqctl beside %s", n.install.server)
	}
	cmd := exec.CommandContext(ctx, n.install.ctl, args...)
	cmd.Env = n.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("rabbit: rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (n *privateNode) evaluate(ctx context.Context, args []string) (out string, ok bool) {
	return evaluate(ctx, args, func(ctx context.Context, input string) (string, error) {
		cmd := exec.CommandContext(ctx, "erl_call", "-sname", n.ports.node(), "-e") // it reads the cookie in HOME
		cmd.Env = n.env
		cmd.Stdin = strings.NewReader(input)
		answer, err := cmd.Output()
		return string(answer), err
	})
}

// ctlCommand is rabbitmqctl in the node's environment.
func (n *privateNode) ctlCommand() []string {
	if n.install.ctl == "" {
		return nil
	}
	return append(n.callerEnv(), n.install.ctl)
}

// evalCommand is erl_call, if that can print what an expression prints: it can since Erlang 23.
func (n *privateNode) evalCommand() []string {
	usage, _ := exec.Command("erl_call").CombinedOutput()
	if !strings.Contains(string(usage), "-fetch_stdout") {
		return n.ctlCommand()
	}
	// Two of one name cannot be connected at a time.
	script := `printf '%s\n' "$3" | erl_call -h "call$$" -sname ` + n.ports.node() + ` -fetch_stdout -no_result_term -e`
	return append(n.callerEnv(), "sh", "-c", script, "rabbitmqctl")
}

// callerEnv sets again all that the node's environment says, as a caller has another one.
func (n *privateNode) callerEnv() []string {
	words := []string{"env"}
	for _, variable := range n.env {
		if name, _, _ := strings.Cut(variable, "="); name == "HOME" || name == "PATH" ||
			strings.HasPrefix(name, "RABBITMQ_") || strings.HasPrefix(name, "ERL_") {
			words = append(words, variable)
		}
	}
	return words
}

// close lets go of the lifeline and waits for the script to have cleaned up.
func (n *privateNode) close() error {
	_ = n.in.Close()
	<-n.gone
	return nil
}

// isPaused reports whether every thread of a process has stopped, or has ended. SIGSTOP is sent to
// the process: where the processors are busy its threads go on for some milliseconds, until one of
// them takes the signal. Only Linux can tell. Elsewhere there is no /proc, and the answer is yes.
func isPaused(pid int) bool {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil {
		return false
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		const paused = "TtZX" // stopped, by a signal or a tracer; ended
		if fields := statFields(string(text)); len(fields) == 0 || !strings.Contains(paused, fields[statState]) {
			return false
		}
	}
	return true
}

// The state is the first of the fields behind the name in a line of proc(5).
const statState = 0

// statFields are the fields behind the name in a line of proc(5). The name in parentheses may
// contain anything, parentheses too.
func statFields(text string) []string {
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}
