package rabbit

import (
	"os"
	"os/exec"
	"path/filepath"
)

type install struct {
	server, ctl, epmd string
	plugins           []string // folders
}

// serverFolders are looked at before PATH: what the packages of Debian and Fedora put into PATH is
// a wrapper that insists on the system's user and folders.
var serverFolders = []string{
	"/usr/lib/rabbitmq/bin", // Debian, Ubuntu, Fedora
	"/opt/homebrew/sbin",    // Homebrew on Apple silicon
	"/usr/local/sbin",       // Homebrew on Intel
	"/opt/rabbitmq/sbin",    // the generic archive, where Docker's image has it
	"/usr/local/opt/rabbitmq/sbin",
}

// findInstall looks for rabbitmq-server; if there is none the error matches [ErrNone].
func findInstall() (install, error) {
	server, err := findServer()
	if err != nil {
		return install{}, err
	}
	epmd, err := exec.LookPath("epmd")
	if err != nil {
		return install{}, missing("rabbitmq-server is here, but Erlang's epmd is not in PATH")
	}
	in := install{server: server, epmd: epmd}
	in.ctl, _ = exec.LookPath(filepath.Join(filepath.Dir(server), "rabbitmqctl"))
	in.plugins = []string{"/usr/lib/rabbitmq/plugins"}
	if target, err := filepath.EvalSymlinks(server); err == nil {
		in.plugins = append(in.plugins, filepath.Join(filepath.Dir(target), "..", "plugins"))
	}
	return in, nil
}

func findServer() (string, error) {
	folders := append(serverFolders[:len(serverFolders):len(serverFolders)],
		filepath.SplitList(os.Getenv("PATH"))...)
	for _, folder := range folders {
		server, err := exec.LookPath(filepath.Join(folder, "rabbitmq-server"))
		if err != nil {
			continue
		}
		if target, err := filepath.EvalSymlinks(server); err == nil && filepath.Base(target) != "rabbitmq-script-wrapper" {
			return server, nil
		}
	}
	return "", missing("no rabbitmq-server on this machine")
}

// available keeps those plugins that are installed: a node does not start with one enabled that is
// not.
func (in install) available(plugins []string) []string {
	var have []string
	for _, plugin := range plugins {
		for _, folder := range in.plugins {
			if found, _ := filepath.Glob(filepath.Join(folder, plugin+"-[0-9v]*")); len(found) > 0 {
				have = append(have, plugin)
				break
			}
		}
	}
	return have
}
