package rabbit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/process"
)

//go:embed common.sh
var commonScript string

//go:embed node.sh
var nodeScript string

// nodePorts are a node's listeners: all on the loopback interface.
type nodePorts struct{ amqp, distribution, epmd, management, prometheus int }

func (p nodePorts) node() string { return "delayer" + strconv.Itoa(p.amqp) + "@localhost" }

func newNodePorts() (nodePorts, error) {
	p, err := freePorts(5)
	if err != nil {
		return nodePorts{}, err
	}
	return nodePorts{p[0], p[1], p[2], p[3], p[4]}, nil
}

type nodeSpec struct {
	Options
	ports  nodePorts
	cookie string // "" for one of its own
	guest  bool   // the epmd at its port is another node's
}

// startNode starts a rabbitmq-server of this machine as a child of this process.
func startNode(ctx context.Context, spec nodeSpec) (*Broker, error) {
	in, err := findInstall()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(nodeRoot(spec.InMemory), "delayer-rabbit-")
	if err != nil {
		return nil, fmt.Errorf("rabbit: private node: %w", err)
	}
	guest := url.UserPassword("guest", "guest")
	b := &Broker{how: "private node", at: &url.URL{Scheme: "amqp", User: guest, Host: loopback + ":" + strconv.Itoa(spec.ports.amqp), Path: "/"}}
	s := &server{plugins: in.available(spec.Plugins), ctl: in.ctl, data: filepath.Join(folder, "data"), usage: treeUsage}
	b.own = s
	if s.hasPlugin("rabbitmq_management") {
		s.api = &url.URL{Scheme: "http", User: guest, Host: loopback + ":" + strconv.Itoa(spec.ports.management)}
	}
	args := spec.Args
	if spec.Clock {
		if s.clock, err = newClock(folder); err != nil {
			return nil, errors.Join(err, os.RemoveAll(folder))
		}
		args = strings.TrimSpace(args + " " + clockArgs)
		b.at.RawQuery = "heartbeat=0" // two steps forward would be two that were missed
	}
	s.env = nodeEnvironment(folder, spec.ports, args)
	s.prefix = callerEnv(s.env)
	s.erlCall = erlCall("erl_call", spec.ports.node()) // it reads the cookie in HOME
	if err := writeNodeFiles(folder, s.plugins, spec); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if spec.guest {
		in.epmd = ""
	}
	script := exec.Command("sh", "-c", commonScript+nodeScript, "node.sh", folder, in.epmd, in.server)
	script.Env = append(slices.Clip(s.env), preload(s.plugins))
	if s.clock != nil {
		// node.sh preloads the library, which looks into the file whenever the server asks for the time.
		script.Env = append(script.Env, "DELAYER_FAKETIME="+s.clock.library, "FAKETIME_TIMESTAMP_FILE="+s.clock.file, "FAKETIME_NO_CACHE=1")
	}
	script.Dir = folder
	spec.Logf("starting a private node of %s", in.server)
	if err := s.begin(script); err != nil { // which from then on owns the folder
		return nil, errors.Join(fmt.Errorf("rabbit: private node: %w", err), os.RemoveAll(folder))
	}
	if b, err = start(ctx, b, spec.Options); err == nil && s.clock != nil {
		// What looks every minute whether epmd is there starts a VM for it.
		_, err = b.Ctl(ctx, "eval", "[sys:suspend(Monitor) || Monitor <- [whereis(rabbit_epmd_monitor)], is_pid(Monitor)].")
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, err
}

// callerEnv sets again all that a node's environment says of it, as a caller has another one.
func callerEnv(env []string) []string {
	words := []string{"env"}
	for _, variable := range env {
		if name, _, _ := strings.Cut(variable, "="); name == "HOME" || name == "PATH" ||
			strings.HasPrefix(name, "RABBITMQ_") || strings.HasPrefix(name, "ERL_") {
			words = append(words, variable)
		}
	}
	return words
}

// treeUsage adds up what a node's VM and all below it have used.
func treeUsage(s *server) (total usage, err error) {
	root, err := strconv.ParseInt(s.pid, 10, 32)
	if err != nil {
		return usage{}, fmt.Errorf("rabbit: the broker's process: %w", err)
	}
	p, err := process.NewProcess(int32(root))
	if err != nil {
		return usage{}, fmt.Errorf("rabbit: the broker's process %d: %w", root, err)
	}
	all := []*process.Process{p}
	for i := 0; i < len(all); i++ { // what ends meanwhile is left out
		children, _ := all[i].Children()
		all = append(all, children...)
		if t, err := all[i].Times(); err == nil {
			total.cpu += time.Duration((t.User + t.System) * float64(time.Second))
		}
		if m, err := all[i].MemoryInfo(); err == nil {
			total.rss += int64(m.RSS)
		}
	}
	if total.rss == 0 {
		return total, fmt.Errorf("rabbit: the broker's process %d is not running", root)
	}
	return total, nil
}

// nodeRoot is where the folder of a node is made: "" is the system's folder for temporary files.
func nodeRoot(inMemory bool) string {
	const sharedMemory = "/dev/shm" // Linux has a file system in memory here; in a container it is often small
	if u, err := disk.Usage(sharedMemory); !inMemory || err != nil || u.Free < 4<<30 {
		return ""
	}
	return sharedMemory
}

// writeNodeFiles writes the configuration into the folder. Without Options.Config there is no
// rabbitmq.conf: to read the shortest takes RabbitMQ almost a second of processor time.
func writeNodeFiles(folder string, plugins []string, spec nodeSpec) error {
	files := map[string]string{
		"enabled_plugins":   "[" + strings.Join(plugins, ",") + "].\n",
		"rabbitmq-env.conf": "",
	}
	if spec.Config != "" {
		files["rabbitmq.conf"] = strings.TrimRight(spec.Config, "\n") + "\n"
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
		// The listeners besides AMQP's. The VM starts Erlang's distribution itself: RabbitMQ would
		// first run a second VM, only to have an epmd, which we have.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+strings.TrimSpace(fmt.Sprintf(
			"-sname %s -start_epmd false %s inet_dist_listen_min %d inet_dist_listen_max %[3]d"+
				" -rabbitmq_management tcp_config %s -rabbitmq_prometheus tcp_config %s %s",
			ports.node(), loopbackOnly, ports.distribution, listener(ports.management), listener(ports.prometheus), args)),
		"RABBITMQ_CTL_ERL_ARGS="+loopbackOnly,
	)
}

const loopbackOnly = "-kernel inet_dist_use_interface {127,0,0,1}"

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
//
//go:embed preload.erl
var preloading string

// Ports are taken from below the ranges that systems give to outgoing connections (32768 and up on
// Linux, 49152 on macOS): otherwise a connection could take ours while the broker is down.
const (
	lowestPort  = 20000
	highestPort = 32000
	loopback    = "127.0.0.1"
)

// reserved are UDP sockets on the numbers of the ports that this process has handed out. They keep
// other processes that start brokers from the same ports, also while the broker is down. They are
// closed when the process ends.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreeAddress returns an address of the loopback interface at which nobody listens. Nobody else gets
// it from this function, nor does a node, while this process lives.
func FreeAddress() (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(loopback, strconv.Itoa(ports[0])), nil
}

// freePorts returns n different ports of the loopback interface that nobody listens on, and that
// nobody else gets from this function while this process lives.
func freePorts(n int) (ports []int, err error) {
	reserved.Lock()
	defer reserved.Unlock()
	for attempt := 0; len(ports) < n && attempt < 100*n; attempt++ {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		address := net.JoinHostPort(loopback, strconv.Itoa(port))
		socket, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		reserved.sockets = append(reserved.sockets, socket)
		if listener, err := net.Listen("tcp", address); err == nil && listener.Close() == nil {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("rabbit: no %d free ports between %d and %d", n, lowestPort, highestPort)
	}
	return ports, nil
}
