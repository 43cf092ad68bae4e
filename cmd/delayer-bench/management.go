package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v3"

	"github.com/delayer-go/delayer/bench"
)

// managementTimeout bounds each question to the API.
const managementTimeout = 5 * time.Second

// addManagement adds the memory that the management API reports; the API reports no processor time.
// at is its address, or "" for the default port of the AMQP URL's host, which need not answer. The
// error never contains the password.
func addManagement(ctx context.Context, target *bench.Target, at string, logf func(string, ...any)) error {
	endpoint, user, err := managementAddress(target.URL, at)
	if err != nil {
		return err
	}
	password, _ := user.Password()
	client, err := rabbithole.NewClient(endpoint, user.Username(), password)
	if err != nil {
		return errors.New("--management: not an address such as http://host:15672") // its text may quote what was given
	}
	client.SetTimeout(managementTimeout)
	memory := func() (int64, error) { return memoryOf(client) }
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err = memory()
	switch {
	case err == nil:
		target.Memory = memory
		target.MemorySource = "mem_used of all nodes, from the management API, which renews it every few seconds"
		logf("memory from the management API at %s; it knows no processor time, which is left out", endpoint)
		return nil
	case at != "":
		return fmt.Errorf("--management %s: %w", endpoint, err)
	}
	logf("processor time and memory are left out: no management API at %s (name it with --management)", endpoint)
	return nil
}

// memoryOf is the memory that the running nodes of the cluster report together.
func memoryOf(client *rabbithole.Client) (int64, error) {
	nodes, err := client.ListNodes()
	if err != nil {
		return 0, fmt.Errorf("management API: %w", err)
	}
	var sum int64
	for _, node := range nodes {
		if node.IsRunning {
			sum += int64(node.MemUsed)
		}
	}
	if sum == 0 {
		return 0, errors.New("management API: no figures of a running node (after a start they take some seconds to come)")
	}
	return sum, nil
}

// managementAddress returns the API's address without credentials, and the user: that of the
// address, else that of the AMQP URL.
func managementAddress(amqp, at string) (endpoint string, user *url.Userinfo, err error) {
	broker, err := url.Parse(amqp)
	if err != nil {
		return "", nil, errors.New("--url: not an AMQP URL")
	}
	user = broker.User
	if user == nil {
		user = url.UserPassword("guest", "guest") // as AMQP clients do
	}
	if at == "" {
		if broker.Scheme == "amqps" {
			return "https://" + net.JoinHostPort(broker.Hostname(), "15671"), user, nil
		}
		return "http://" + net.JoinHostPort(broker.Hostname(), "15672"), user, nil
	}
	api, err := url.Parse(at)
	if err != nil || api.Host == "" || api.Scheme != "http" && api.Scheme != "https" {
		return "", nil, errors.New("--management: not an address such as http://host:15672")
	}
	if api.User != nil {
		user = api.User
	}
	api.User = nil
	return strings.TrimSuffix(api.String(), "/"), user, nil
}
