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
	client   *docker.Client
	options  Options
	id       string
	hostname string // RabbitMQ's data bear it
	at       *url.URL
	api      *url.URL // of management; nil without that plugin
	stream   docker.CloseWaiter
	gone     chan struct{} // closed when the stream, and so the container, has ended
}

func startDocker(ctx context.Context, o Options) (*Broker, error) {
	client, err := engine(ctx)
	if err != nil {
		return nil, err
	}
	const itsOwn = ""
	c, err := containerOf(ctx, client, o, itsOwn)
	if err != nil {
		return nil, err
	}
	return begin(ctx, c, o)
}

// containerOf is a new container, of an image that is pulled if it is not here. Without a host name
// it gets one of its own.
func containerOf(ctx context.Context, client *docker.Client, o Options, hostname string) (*container, error) {
	if err := ensureImage(ctx, client, o); err != nil {
		return nil, err
	}
	c, err := newContainer(ctx, client, o, hostname)
	if err != nil {
		return nil, fmt.Errorf("no container of %s: %w", o.Image, err)
	}
	return c, nil
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
func newContainer(ctx context.Context, client *docker.Client, o Options, hostname string) (*container, error) {
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
			Hostname:     hostname,
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
	c.hostname = state.Config.Hostname
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

// Upgrade stops a broker in Docker, and goes on with its data in a container of another image, as
// an operator upgrades RabbitMQ in place. Its addresses and commands change, as do its version and
// plugins: nobody else may use the broker meanwhile. If it fails the broker is down, and Close
// removes it.
func (b *Broker) Upgrade(ctx context.Context, image string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.host.(*container)
	if !ok {
		return fmt.Errorf("rabbit: only a broker in Docker can be upgraded, not the %s", b.How())
	}
	if err := b.stopLocked(ctx); err != nil {
		return err
	}
	o := old.options
	o.Image = image
	c, err := containerOf(ctx, old.client, o, old.hostname)
	if err != nil {
		return err
	}
	if err := old.copyData(ctx, c); err != nil {
		return errors.Join(err, c.close())
	}
	b.host, b.about = c, about{}
	return errors.Join(b.runLocked(ctx), old.close())
}

// copyData copies the server's data to a container in which it does not run.
func (c *container) copyData(ctx context.Context, to *container) error {
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := c.pipe(ctx, nil, write, &bytes.Buffer{}, "tar", "-C", containerData, "-cf", "-", ".")
		_ = write.CloseWithError(err)
		done <- err
	}()
	err := to.pipe(ctx, read, io.Discard, &bytes.Buffer{}, "tar", "-C", containerData, "-xpf", "-")
	_ = read.CloseWithError(err)
	return errors.Join(err, <-done)
}
