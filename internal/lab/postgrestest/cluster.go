package postgrestest

import (
	"bufio"
	"crypto/rand"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed cluster.sh
var clusterScript string

const (
	loopback = "127.0.0.1"
	ready    = "@delayer ready" // the script's line once the server answers
)

// lifelines are the inputs of scripts, which end their servers with this process.
var lifelines []io.Closer

// startCluster starts a private PostgreSQL and returns its address. Its data is in a temporary
// folder.
func startCluster() (address string, err error) {
	bin, err := findBin()
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return "", fmt.Errorf("postgres: no free port: %w", err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	folder, err := os.MkdirTemp("", "delayer-postgres-")
	if err != nil {
		return "", fmt.Errorf("postgres: private cluster: %w", err)
	}
	password := rand.Text()
	if err := os.WriteFile(filepath.Join(folder, "password"), []byte(password), 0o600); err != nil {
		return "", fmt.Errorf("postgres: private cluster: %w", err)
	}
	script := exec.Command("sh", "-c", clusterScript, "cluster.sh", folder, bin, port)
	script.Dir = folder
	in, err1 := script.StdinPipe()
	out, err2 := script.StdoutPipe()
	script.Stderr = script.Stdout
	for _, err := range []error{err1, err2, script.Start()} {
		if err != nil {
			return "", fmt.Errorf("postgres: private cluster: %w", err)
		}
	}
	lifelines = append(lifelines, in)
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); said.WriteString(lines.Text() + "\n") {
		if lines.Text() == ready {
			at := url.URL{
				Scheme: "postgres", User: url.UserPassword("postgres", password),
				Host: net.JoinHostPort(loopback, port), Path: "/postgres",
			}
			return at.String(), nil
		}
	}
	_ = script.Wait() // its state says what it would
	return "", fmt.Errorf("postgres: the private cluster did not start (%v):\n%s", script.ProcessState, &said)
}

// binFolders are where packages keep the server's programs, which are not in PATH.
var binFolders = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // PostgreSQL's own packages for Fedora
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
}

// findBin returns the newest folder with initdb; if there is none the error matches [errNone].
func findBin() (string, error) {
	var found []string
	for _, pattern := range binFolders {
		programs, _ := filepath.Glob(filepath.Join(pattern, "initdb"))
		found = append(found, programs...)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("postgres: %w: %s is not set and there is no initdb on this machine (type: make install-postgresql)",
			errNone, urlVariable)
	}
	slices.SortStableFunc(found, func(a, b string) int { return number(b) - number(a) })
	return filepath.Dir(found[0]), nil
}

// number is the version in a path: 15 in /usr/lib/postgresql/15/bin.
func number(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[len(digits)-1])
	return n
}
