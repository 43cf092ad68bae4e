package rabbit

import (
	"context"
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

// A nodeSpec is what one private node differs by from another.
type nodeSpec struct {
	options Options
	ports   nodePorts
	cookie  string // "" for one of its own
	guest   bool   // the epmd at its port is another node's
}

func startNode(ctx context.Context, o Options) (*Broker, error) {
	ports, err := newNodePorts()
	if err != nil {
		return nil, err
	}
	return startSpec(ctx, nodeSpec{options: o, ports: ports}, o)
}

// writeNodeFiles writes the configuration into the folder. Without Options.Config there is no
// rabbitmq.conf: to read the shortest takes RabbitMQ almost a second of processor time.
func writeNodeFiles(folder string, plugins []string, spec nodeSpec) error {
	files := map[string]string{
		"enabled_plugins":   "[" + strings.Join(plugins, ",") + "].\n",
		"rabbitmq-env.conf": "",
	}
	if spec.options.Config != "" {
		files["rabbitmq.conf"] = strings.TrimRight(spec.options.Config, "\n") + "\n"
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
	return append(env,
		"HOME="+folder, // where Erlang keeps the cookie
		"ERL_EPMD_PORT="+strconv.Itoa(ports.epmd),
		"ERL_EPMD_ADDRESS="+loopback,
		"ERL_CRASH_DUMP_BYTES=0",
		"RABBITMQ_NODENAME="+ports.node(),
		"RABBITMQ_NODE_IP_ADDRESS="+loopback,
		"RABBITMQ_NODE_PORT="+strconv.Itoa(ports.amqp),
		"RABBITMQ_MNESIA_BASE="+in("data"),
		"RABBITMQ_LOG_BASE="+in("log"),
		"RABBITMQ_LOGS=-", // standard output
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
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+strings.TrimSpace(serverArgs(ports)+" "+args),
		"RABBITMQ_CTL_ERL_ARGS="+loopbackOnly,
	)
}

const loopbackOnly = "-kernel inet_dist_use_interface {127,0,0,1}"

// serverArgs are the listeners besides AMQP's. The VM starts Erlang's distribution itself: RabbitMQ
// would first run a second VM, only to have an epmd, which we have.
func serverArgs(p nodePorts) string {
	return fmt.Sprintf("-sname %s -start_epmd false %s inet_dist_listen_min %d inet_dist_listen_max %[3]d"+
		" -rabbitmq_management tcp_config %s -rabbitmq_prometheus tcp_config %s",
		p.node(), loopbackOnly, p.distribution, listener(p.management), listener(p.prometheus))
}

// listener is an address as plugins have it in their configuration.
func listener(port int) string { return fmt.Sprintf(`[{ip,"%s"},{port,%d}]`, loopback, port) }

// preload returns the environment that makes the server load its modules, and those of the plugins,
// all at once and before it starts. It needs them all to start, but loads one after the other, for
// which the VM copies its tables each time: some 900 of them cost twice as much.
func preload(plugins []string) string {
	return fmt.Sprintf("ERL_AFLAGS=-eval '"+strings.Join(strings.Fields(preloading), " ")+"'",
		strings.Join(append([]string{"rabbit"}, plugins...), ","))
}

// preloading reads of each application which modules it has and which applications it needs. The
// VMs that the server starts do not inherit it.
const preloading = `
os:unsetenv("ERL_AFLAGS"),
Add = fun Add(App, Apps) when is_map_key(App, Apps) -> Apps;
          Add(App, Apps) ->
              case file:consult(code:where_is_file(atom_to_list(App) ++ ".app")) of
                  {ok, [{application, _, About}]} ->
                      lists:foldl(Add, Apps#{App => proplists:get_value(modules, About, [])},
                                  proplists:get_value(applications, About, []));
                  _ -> Apps#{App => []}
              end
      end,
code:ensure_modules_loaded(lists:append(maps:values(lists:foldl(Add, #{}, [%s])))).`
