package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lib/management"
)

// openTarget returns the broker at url, or without a url the one that internal/lab/rabbit finds or
// starts. The memory of a broker that is not ours comes from the management API at api, or at its
// default port.
func openTarget(
	ctx context.Context, url, api string, logf func(string, ...any),
) (target bench.Target, release func(), err error) {
	release = func() {}
	if url != "" {
		target, err = bench.Given(ctx, url, "given by --url")
	} else {
		logf("looking for a broker")
		var b *rabbit.Broker
		b, err = rabbit.Start(ctx, rabbit.Options{Logf: logf, Plugins: []string{"rabbitmq_delayed_message_exchange"}})
		if err == nil {
			release = func() { _ = b.Close() }
			target = bench.Target{
				URL: b.URL(), Product: b.Product(), Version: b.Version(), How: b.How(), Platform: b.Platform(),
				CPU: b.CPU, Memory: b.RSS, Disk: b.Disk, Written: b.Written,
			}
			if b.Owned() {
				target.Restart = func(ctx context.Context) error { return errors.Join(b.Stop(ctx), b.Run(ctx)) }
			}
		}
	}
	if err == nil && target.Restart == nil {
		err = addManagement(ctx, &target, api, logf)
	}
	return target, release, err
}

// addManagement adds the memory that the management API reports; the API reports no processor time.
// at is its address, or "" for the default port of the AMQP URL's host, which need not answer. The
// error never contains the password.
func addManagement(ctx context.Context, target *bench.Target, at string, logf func(string, ...any)) error {
	address, err := managementAddress(target.URL, at)
	if err != nil {
		return err
	}
	const timeout = 5 * time.Second
	client, err := management.New(address, timeout, nil)
	if err != nil {
		return fmt.Errorf("--management: %w", err)
	}
	memory := func() (int64, error) { return memoryOf(client) }
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err = memory()
	switch {
	case err == nil:
		target.Memory = memory
		target.MemorySource = "mem_used of all nodes, from the management API, which renews it every few seconds"
		logf("memory from the management API at %s; it knows no processor time, which is left out", client)
	case at != "":
		return fmt.Errorf("--management: %w", err)
	default:
		logf("processor time and memory are left out: no management API at %s (name it with --management)", client)
	}
	return nil
}

// memoryOf is the memory that the running nodes of the cluster report together.
func memoryOf(client *management.Client) (int64, error) {
	var nodes []struct {
		Running bool
		Memory  int64 `json:"mem_used"`
	}
	err := client.Get(context.Background(), management.Request{Op: "read memory", Path: "nodes"}, &nodes)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, node := range nodes {
		if node.Running {
			sum += node.Memory
		}
	}
	if sum == 0 {
		return 0, errors.New("management API: no figures of a running node (after a start they take some seconds to come)")
	}
	return sum, nil
}

// managementAddress is at, or the default port of the AMQP URL's host. Without a user it gets that
// of the AMQP URL.
func managementAddress(amqp, at string) (string, error) {
	broker, err := url.Parse(amqp)
	if err != nil {
		return "", errors.New("--url: not an AMQP URL")
	}
	api := &url.URL{Scheme: "http", Host: net.JoinHostPort(broker.Hostname(), "15672")}
	if broker.Scheme == "amqps" {
		api = &url.URL{Scheme: "https", Host: net.JoinHostPort(broker.Hostname(), "15671")}
	}
	if at != "" {
		if api, err = url.Parse(at); err != nil {
			return "", errors.New("--management: not an address such as http://host:15672")
		}
	}
	if api.User == nil {
		api.User = broker.User
	}
	if api.User == nil {
		api.User = url.UserPassword("guest", "guest") // as AMQP clients do
	}
	return api.String(), nil
}
