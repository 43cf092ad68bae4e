package rabbit

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

//go:embed container.sh
var containerScript string

const (
	containerPort  docker.Port = "5672/tcp"
	managementPort docker.Port = "15672/tcp"
	// The broker lets its default user guest in from its own loopback only; a user of another name
	// may come from outside of the container.
	containerUser = "delayer"
	// The server's data, in the images that we know.
	containerData = "/var/lib/rabbitmq/mnesia"
	pingTimeout   = 5 * time.Second
)

// container is a RabbitMQ in Docker. The container lives as long as the lifeline, with port and
// data; within it the script starts and ends the server.
type container struct {
	*lifeline
	pluginSet
	client  *docker.Client
	options Options
	id      string
	at      *url.URL
	api     *url.URL // of management; nil without that plugin
	stream  docker.CloseWaiter
	gone    chan struct{} // closed when the stream, and so the container, has ended
}

func startDocker(ctx context.Context, o Options) (*Broker, error) {
	client, err := engine(ctx)
	if err != nil {
		return nil, err
	}
	if err := ensureImage(ctx, client, o); err != nil {
		return nil, err
	}
	c, err := newContainer(ctx, client, o)
	if err != nil {
		return nil, fmt.Errorf("no container of %s: %w", o.Image, err)
	}
	return begin(ctx, c, o)
}

// engine asks whether one answers: a pool is made without looking.
func engine(ctx context.Context) (*docker.Client, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, missing("no Docker engine: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := pool.Client.PingWithContext(ctx); err != nil {
		return nil, missing("no Docker engine answers: " + err.Error())
	}
	return pool.Client, nil
}

// ensureImage pulls the image only if it is not there.
func ensureImage(ctx context.Context, client *docker.Client, o Options) error {
	_, err := client.InspectImage(o.Image)
	if err == nil {
		return nil
	}
	if !errors.Is(err, docker.ErrNoSuchImage) {
		return fmt.Errorf("the image %s cannot be inspected: %w", o.Image, err)
	}
	o.Logf("pulling the image %s", o.Image)
	name, tag := docker.ParseRepositoryTag(o.Image)
	pull := docker.PullImageOptions{Repository: name, Tag: tag, Context: ctx}
	if err := client.PullImage(pull, docker.AuthConfiguration{}); err != nil {
		return missing("the image " + o.Image + " is not here and cannot be pulled: " + err.Error())
	}
	return nil
}

// newContainer creates and starts the container, with the script in front of the image's own
// command.
func newContainer(ctx context.Context, client *docker.Client, o Options) (*container, error) {
	image, err := client.InspectImage(o.Image)
	if err != nil {
		return nil, err
	}
	env, memory := containerEnvironment(o), map[string]string(nil)
	if keepsInMemory(client, o) {
		env, memory = append(env, "DELAYER_IN_MEMORY="+containerData), map[string]string{containerData: ""}
	}
	created, err := client.CreateContainer(docker.CreateContainerOptions{
		Context: ctx,
		Config: &docker.Config{
			Image:        o.Image,
			Entrypoint:   []string{"sh", "-c", containerScript, "container.sh"},
			Cmd:          append(image.Config.Entrypoint, image.Config.Cmd...),
			Env:          env,
			ExposedPorts: map[docker.Port]struct{}{containerPort: {}, managementPort: {}},
			Labels:       map[string]string{"delayer.pid": strconv.Itoa(os.Getpid())},
			OpenStdin:    true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		},
		HostConfig: &docker.HostConfig{
			AutoRemove: true,
			Tmpfs:      memory,
			PortBindings: map[docker.Port][]docker.PortBinding{
				containerPort:  {{HostIP: bindAddress(client)}},
				managementPort: {{HostIP: bindAddress(client)}},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	c := &container{lifeline: newLifeline(), client: client, options: o, id: created.ID, gone: make(chan struct{})}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

// keepsInMemory tells whether the engine keeps the data in memory: where it was asked for, and the
// engine's machine has the room. A file system in memory may take half of it.
func keepsInMemory(client *docker.Client, o Options) bool {
	if !o.InMemory {
		return false
	}
	info, err := client.Info()
	return err == nil && info.MemTotal >= 2*roomInMemory
}

func containerEnvironment(o Options) []string {
	env := []string{
		"RABBITMQ_DEFAULT_USER=" + containerUser, "RABBITMQ_DEFAULT_PASS=" + containerUser,
		"RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/enabled_plugins",
		"DELAYER_PLUGINS=" + strings.Join(o.Plugins, " "),
		"DELAYER_CONFIG=" + o.Config,
	}
	if o.Args != "" {
		env = append(env, "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+o.Args)
	}
	return env
}

// start attaches first, so that there is no moment at which the container runs without its
// lifeline.
func (c *container) start(ctx context.Context) error {
	read, write := io.Pipe()
	c.in = write
	attached := make(chan struct{})
	stream, err := c.client.AttachToContainerNonBlocking(docker.AttachToContainerOptions{
		Container: c.id, Stream: true, Stdin: true, Stdout: true, Stderr: true,
		InputStream: read, OutputStream: c.lifeline, ErrorStream: c.lifeline, Success: attached,
	})
	if err != nil {
		return err
	}
	c.stream = stream
	go func() {
		defer close(c.gone)
		_ = stream.Wait()
		_ = read.Close() // who writes to a container that is gone is told so, and does not wait for ever
		c.lost()
	}()
	select {
	case <-attached:
		attached <- struct{}{}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.client.StartContainerWithContext(c.id, nil, ctx); err != nil {
		return err
	}
	enabled, err := c.answer("plugins", c.gone)
	if err != nil {
		return err
	}
	c.pluginSet = strings.FieldsFunc(strings.Join(enabled, ""), func(r rune) bool { return r == ',' })
	return c.locate(ctx)
}

// locate finds out the addresses under which the engine publishes the ports.
func (c *container) locate(ctx context.Context) error {
	state, err := c.client.InspectContainerWithContext(c.id, ctx)
	if err != nil {
		return err
	}
	c.at = c.published(state, containerPort, "amqp")
	if c.at == nil {
		return errors.New("the engine has not published port 5672")
	}
	c.at.Path = "/"
	if c.hasPlugin("rabbitmq_management") {
		c.api = c.published(state, managementPort, "http")
	}
	return nil
}

// published is the address of a port, or nil.
func (c *container) published(state *docker.Container, port docker.Port, scheme string) *url.URL {
	bound := state.NetworkSettings.Ports[port]
	if len(bound) == 0 {
		return nil
	}
	return &url.URL{
		Scheme: scheme, User: url.UserPassword(containerUser, containerUser),
		Host: net.JoinHostPort(engineHost(c.client), bound[0].HostPort),
	}
}

// bindAddress keeps the port to this machine, unless the engine is on another one.
func bindAddress(client *docker.Client) string {
	if engineHost(client) == loopback {
		return loopback
	}
	return ""
}

// engineHost is the machine on which the engine publishes ports.
func engineHost(client *docker.Client) string {
	at, err := url.Parse(client.Endpoint())
	if err != nil || at.Hostname() == "" || at.Scheme == "unix" || at.Scheme == "npipe" {
		return loopback
	}
	return at.Hostname()
}

func (c *container) how() string               { return "Docker container (" + c.options.Image + ")" }
func (c *container) url() *url.URL             { return c.at }
func (c *container) owned() bool               { return true }
func (c *container) clock() *clock             { return nil }
func (c *container) run(context.Context) error { return c.lifeline.run() }

func (c *container) stop(ctx context.Context) error { return c.signal(ctx, "TERM") }
func (c *container) kill() error                    { return c.signal(context.Background(), "KILL") }

func (c *container) pause(paused bool) error {
	command := "resume"
	if paused {
		command = "pause"
	}
	if err := c.say(command); err != nil {
		return err
	}
	_, err := c.answer(command, c.gone) // said when it is done
	return err
}

// signal sends a signal that ends the Erlang VM, not the container, and waits for that end.
func (c *container) signal(ctx context.Context, name string) error {
	ended := c.ended()
	if err := c.say("signal " + name); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rabbit: the broker in Docker does not end after SIG%s: %w", name, ctx.Err())
	}
}

func (c *container) usage() (usage, error) {
	if err := c.say("usage"); err != nil {
		return usage{}, err
	}
	fields, err := c.answer("usage", c.gone)
	if err != nil {
		return usage{}, err
	}
	if len(fields) != 2 {
		return usage{}, fmt.Errorf("rabbit: the container said usage %q", fields)
	}
	nanoseconds, err1 := strconv.ParseInt(fields[0], 10, 64)
	kilobytes, err2 := strconv.ParseInt(fields[1], 10, 64)
	return usage{cpu: time.Duration(nanoseconds), rss: kilobytes << 10, cumulative: true}, errors.Join(err1, err2)
}

func (c *container) ctl(ctx context.Context, args ...string) (string, error) {
	if out, ok := c.evaluate(ctx, args); ok {
		return out, nil
	}
	return c.exec(ctx, append([]string{"rabbitmqctl"}, args...)...)
}

func (c *container) evaluate(ctx context.Context, args []string) (out string, ok bool) {
	if !running(c) {
		return "", false
	}
	return evaluate(ctx, args, func(ctx context.Context, input string) (string, error) {
		return c.exec(ctx, "sh", "-c", erlCall+`-e`, "", "", "", input)
	})
}

// erlCall evaluates $3, with the cookie of the server. Two of one name cannot be connected at a
// time.
const erlCall = `printf '%s\n' "$3" | HOME=/var/lib/rabbitmq erl_call -h "call$$" -sname "rabbit@$(hostname)" `

func (c *container) disk() (int64, error) {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return diskUsed(c.exec(ctx, "sh", "-c", "du -sk /var/lib/rabbitmq 2>/dev/null"))
}

// exec runs a command in the container and returns what it printed.
func (c *container) exec(ctx context.Context, command ...string) (string, error) {
	var out bytes.Buffer
	created, err := c.client.CreateExec(docker.CreateExecOptions{
		Context: ctx, Container: c.id, Cmd: command, AttachStdout: true, AttachStderr: true,
	})
	if err == nil {
		err = c.client.StartExec(created.ID, docker.StartExecOptions{Context: ctx, OutputStream: &out, ErrorStream: &out})
	}
	if err == nil {
		var result *docker.ExecInspect
		if result, err = c.client.InspectExec(created.ID); err == nil && result.ExitCode != 0 {
			err = fmt.Errorf("exit status %d: %s", result.ExitCode, &out)
		}
	}
	if err != nil {
		err = fmt.Errorf("rabbit: %s: %w", strings.Join(command, " "), err)
	}
	return out.String(), err
}

func (c *container) ctlCommand() []string { return []string{"docker", "exec", c.id, "rabbitmqctl"} }

// evalCommand is erl_call, if the image has one that can print what an expression prints.
func (c *container) evalCommand() []string {
	usage, _ := c.exec(context.Background(), "sh", "-c", "erl_call 2>&1 || true")
	if !strings.Contains(usage, "-fetch_stdout") {
		return c.ctlCommand()
	}
	return []string{"docker", "exec", c.id, "sh", "-c", erlCall + "-fetch_stdout -no_result_term -e", "rabbitmqctl"}
}

func (c *container) management() string {
	if c.api == nil {
		return ""
	}
	return c.api.String()
}

// close removes the container at once; letting go of the lifeline would do the same, less quickly.
func (c *container) close() error {
	err := c.remove()
	_ = c.in.Close()
	if c.stream != nil {
		_ = c.stream.Close()
		c.stream = nil // to close it again panics
		<-c.gone
	}
	return err
}

func (c *container) remove() error {
	err := c.client.RemoveContainer(docker.RemoveContainerOptions{ID: c.id, RemoveVolumes: true, Force: true})
	var missing *docker.NoSuchContainer
	var api *docker.Error
	if errors.As(err, &missing) || errors.As(err, &api) && api.Status == 409 { // gone, or going
		return nil
	}
	return err
}
