//go:build unix

package rabbit

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// nodePorts are a node's listeners: all on the loopback interface.
type nodePorts struct{ amqp, distribution, epmd, management, prometheus int }

// node is the name that a node goes by.
func (p nodePorts) node() string { return "delayer" + strconv.Itoa(p.amqp) + "@localhost" }

func newNodePorts() (nodePorts, error) {
	p, err := freePorts(5)
	if err != nil {
		return nodePorts{}, err
	}
	return nodePorts{p[0], p[1], p[2], p[3], p[4]}, nil
}

// writeNodeFiles writes the configuration into the folder. A setting of a plugin that is not
// enabled would keep some versions from starting.
func writeNodeFiles(folder string, plugins []string, spec nodeSpec) error {
	ports := spec.ports
	conf := "log.console = true\nlog.console.level = info\nlog.file = false\n"
	for _, plugin := range plugins {
		switch plugin {
		case "rabbitmq_management":
			conf += fmt.Sprintf("management.tcp.ip = %s\nmanagement.tcp.port = %d\n", loopback, ports.management)
		case "rabbitmq_prometheus":
			conf += fmt.Sprintf("prometheus.tcp.ip = %s\nprometheus.tcp.port = %d\n", loopback, ports.prometheus)
		}
	}
	if spec.options.Config != "" {
		conf += strings.TrimRight(spec.options.Config, "\n") + "\n"
	}
	files := map[string]string{
		"rabbitmq.conf":     conf,
		"enabled_plugins":   "[" + strings.Join(plugins, ",") + "].\n",
		"rabbitmq-env.conf": "",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("rabbit: private node: %w", err)
		}
	}
	if spec.cookie == "" {
		return nil // Erlang makes one up
	}
	return os.WriteFile(filepath.Join(folder, ".erlang.cookie"), []byte(spec.cookie), 0o400)
}

// nodeEnvironment is the environment of the server and of rabbitmqctl. What this process has of
// RabbitMQ's and Erlang's variables is dropped, and so is the system's configuration: a node for
// tests is the same on every machine.
func nodeEnvironment(folder string, ports nodePorts, args string) []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "RABBITMQ_") && !strings.HasPrefix(variable, "ERL_") &&
			!strings.HasPrefix(variable, "HOME=") && !strings.HasPrefix(variable, urlVariable+"=") {
			env = append(env, variable)
		}
	}
	in := func(name string) string { return filepath.Join(folder, name) }
	loopbackOnly := "-kernel inet_dist_use_interface {127,0,0,1}"
	return append(env,
		"HOME="+folder, // where Erlang keeps the cookie
		"ERL_EPMD_PORT="+strconv.Itoa(ports.epmd),
		"ERL_EPMD_ADDRESS="+loopback,
		"ERL_CRASH_DUMP_BYTES=0",
		"RABBITMQ_NODENAME="+ports.node(),
		"RABBITMQ_NODE_IP_ADDRESS="+loopback,
		"RABBITMQ_NODE_PORT="+strconv.Itoa(ports.amqp),
		"RABBITMQ_DIST_PORT="+strconv.Itoa(ports.distribution),
		"RABBITMQ_MNESIA_BASE="+in("data"),
		"RABBITMQ_LOG_BASE="+in("log"),
		"RABBITMQ_GENERATED_CONFIG_DIR="+in("config"),
		"RABBITMQ_CONFIG_FILE="+in("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES="+in("no-conf.d"),
		"RABBITMQ_ADVANCED_CONFIG_FILE="+in("no-advanced.config"),
		"RABBITMQ_CONF_ENV_FILE="+in("rabbitmq-env.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+in("enabled_plugins"),
		// The server's script then becomes the VM instead of its parent; -noinput takes back the
		// rest.
		"RABBITMQ_ALLOW_INPUT=1",
		"RABBITMQ_SERVER_START_ARGS=-noinput",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+strings.TrimSpace(loopbackOnly+" "+args),
		"RABBITMQ_CTL_ERL_ARGS="+loopbackOnly,
	)
}
