package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ory/dockertest/v3/docker"
)

func (c *container) how() string               { return "Docker container (" + c.options.Image + ")" }
func (c *container) url() *url.URL             { return c.at }
func (c *container) owned() bool               { return true }
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
	err := c.pipe(ctx, nil, &out, &out, command...)
	return out.String(), err
}

// pipe runs a command in the container, with an input or nil. The error has what it said.
func (c *container) pipe(ctx context.Context, in io.Reader, out io.Writer, said *bytes.Buffer, command ...string) error {
	created, err := c.client.CreateExec(docker.CreateExecOptions{
		Context: ctx, Container: c.id, Cmd: command, AttachStdin: in != nil, AttachStdout: true, AttachStderr: true,
	})
	if err == nil {
		err = c.client.StartExec(created.ID, docker.StartExecOptions{Context: ctx, InputStream: in, OutputStream: out, ErrorStream: said})
	}
	if err == nil {
		var result *docker.ExecInspect
		if result, err = c.client.InspectExec(created.ID); err == nil && result.ExitCode != 0 {
			err = fmt.Errorf("exit status %d: %s", result.ExitCode, said.String())
		}
	}
	if err != nil {
		err = fmt.Errorf("rabbit: %s: %w", strings.Join(command, " "), err)
	}
	return err
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
