package rabbit

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed container.sh
var containerScript string

const (
	// The broker lets its default user guest in from its own loopback only; a user of another name
	// may come from outside of the container.
	containerUser = "delayer"
	// The server's data, in the images that we know.
	containerData = "/var/lib/rabbitmq/mnesia"
	pingTimeout   = 5 * time.Second
)

// startDocker runs a container. It lives as long as the lifeline, with port and data; within it the
// script, which is in front of the image's own command, starts and ends the server.
func startDocker(ctx context.Context, o Options) (*Broker, error) {
	command, err := imageCommand(ctx, o)
	if err != nil {
		return nil, err
	}
	name := "delayer-" + strings.ToLower(rand.Text()[:12])
	args := []string{
		"run", "--interactive", "--rm", "--name", name, "--label", fmt.Sprintf("delayer.pid=%d", os.Getpid()),
		"--publish", loopback + "::5672", "--publish", loopback + "::15672", "--entrypoint", "sh",
		"--env", "RABBITMQ_DEFAULT_USER=" + containerUser, "--env", "RABBITMQ_DEFAULT_PASS=" + containerUser,
		"--env", "RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/enabled_plugins",
		"--env", "DELAYER_PLUGINS=" + strings.Join(o.Plugins, " "),
		"--env", "DELAYER_CONFIG=" + o.Config,
	}
	if o.Args != "" {
		args = append(args, "--env", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+o.Args)
	}
	if o.InMemory {
		args = append(args, "--env", "DELAYER_IN_MEMORY="+containerData, "--tmpfs", containerData)
	}
	args = append(append(args, image(), "-c", commonScript+containerScript, "container.sh"), command...)
	s := &server{
		prefix: []string{"docker", "exec", name}, ctl: "rabbitmqctl", data: "/var/lib/rabbitmq",
		erlCall: erlCall(`HOME=/var/lib/rabbitmq erl_call`, `"rabbit@$(hostname)"`), usage: containerUsage,
	}
	if err := s.begin(exec.Command("docker", args...)); err != nil {
		return nil, err
	}
	enabled, err := s.answer("plugins")
	if err != nil {
		return nil, fmt.Errorf("no container of %s: %w", image(), err)
	}
	s.plugins = strings.FieldsFunc(strings.Join(enabled, ""), func(r rune) bool { return r == ',' })
	at, err := published(ctx, name, "amqp", "5672/tcp")
	if err == nil && s.hasPlugin("rabbitmq_management") {
		s.api, err = published(ctx, name, "http", "15672/tcp")
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	at.Path = "/"
	return start(ctx, &Broker{at: at, how: "Docker container (" + image() + ")", own: s}, o)
}

func image() string { return cmp.Or(os.Getenv("DELAYER_RABBITMQ_IMAGE"), "rabbitmq:4.0") }

func docker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("docker %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// imageCommand is what the image runs. It pulls the image only if it is not there. Without an engine
// or the image, the error matches [ErrNone].
func imageCommand(ctx context.Context, o Options) ([]string, error) {
	asking, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if _, err := docker(asking, "version"); err != nil {
		return nil, missing("no Docker engine answers: " + err.Error())
	}
	inspect := []string{"image", "inspect", "--format", "{{json .Config}}", image()}
	said, err := docker(ctx, inspect...)
	if err != nil {
		o.Logf("pulling the image %s", image())
		if _, err := docker(ctx, "pull", image()); err != nil {
			return nil, missing("the image " + image() + " is not here and cannot be pulled: " + err.Error())
		}
		if said, err = docker(ctx, inspect...); err != nil {
			return nil, err
		}
	}
	var config struct{ Entrypoint, Cmd []string }
	err = json.Unmarshal([]byte(said), &config)
	return append(config.Entrypoint, config.Cmd...), err
}

func published(ctx context.Context, container, scheme, port string) (*url.URL, error) {
	host, err := docker(ctx, "port", container, port)
	return &url.URL{Scheme: scheme, User: url.UserPassword(containerUser, containerUser), Host: host}, err
}

func containerUsage(s *server) (usage, error) {
	fields, err := s.ask("usage", "usage")
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
