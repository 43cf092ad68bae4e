//go:build unix

package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

//go:embed cluster.sh
var clusterScript string

const (
	loopback  = "127.0.0.1"
	superuser = "postgres"
	ready     = "@delayer ready" // the script's line once the server answers
)

// A cluster is a private PostgreSQL, run by a script that ends it when our end of its input closes.
type cluster struct {
	folder, password string
	port             int

	script *exec.Cmd
	in     io.Closer
	out    *output
	gone   chan struct{} // closed when the script has ended
	once   sync.Once
}

func startCluster(ctx context.Context) (*cluster, error) {
	bin, err := findBin()
	if err != nil {
		return nil, err
	}
	c := &cluster{password: rand.Text(), gone: make(chan struct{}), out: &output{ready: make(chan struct{})}}
	if c.port, err = freePort(); err != nil {
		return nil, err
	}
	if c.folder, err = os.MkdirTemp("", "delayer-postgres-"); err != nil {
		return nil, fmt.Errorf("postgres: private cluster: %w", err)
	}
	if err := c.start(bin); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: private cluster: %w", err), os.RemoveAll(c.folder))
	}
	return c, c.await(ctx)
}

// start runs the script, which from then on owns the folder.
func (c *cluster) start(bin string) error {
	if err := os.WriteFile(filepath.Join(c.folder, "password"), []byte(c.password), 0o600); err != nil {
		return err
	}
	c.script = exec.Command("sh", "-c", clusterScript, "cluster.sh", c.folder, bin, strconv.Itoa(c.port))
	c.script.Dir = c.folder
	c.script.Stdout, c.script.Stderr = c.out, c.out
	// A group of its own: an interrupt typed at the terminal ends us, and only then the server.
	c.script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		if err := c.leaveRoot(); err != nil {
			return err
		}
	}
	in, err := c.script.StdinPipe()
	if err != nil {
		return err
	}
	c.in = in
	if err := c.script.Start(); err != nil {
		return err
	}
	go func() {
		defer close(c.gone)
		_ = c.script.Wait()
	}()
	return nil
}

// leaveRoot makes the script run as the user that Debian's package comes with, who then owns the
// folder.
func (c *cluster) leaveRoot() error {
	u, err := user.Lookup(superuser)
	if err != nil {
		return fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	c.script.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return errors.Join(err1, err2, os.Chown(c.folder, uid, gid), os.Chown(filepath.Join(c.folder, "password"), uid, gid))
}

func (c *cluster) await(ctx context.Context) error {
	select {
	case <-c.out.ready:
		return nil
	case <-c.gone:
		return fmt.Errorf("postgres: the private cluster did not start:\n%s", c.out)
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("postgres: the private cluster does not start: %w:\n%s", ctx.Err(), c.out), c.close())
	}
}

func (c *cluster) url() string {
	at := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, c.password),
		Host: net.JoinHostPort(loopback, strconv.Itoa(c.port)), Path: "/postgres",
	}
	return at.String()
}

// close lets go of the script's input and waits for it to have cleaned up. The folder itself may be
// in one that only root writes to.
func (c *cluster) close() error {
	c.once.Do(func() { _ = c.in.Close() })
	<-c.gone
	return os.RemoveAll(c.folder)
}

// binFolders are where packages keep the server's programs, which are not in PATH.
var binFolders = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // PostgreSQL's own packages for Fedora
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
}

// findBin returns the newest folder with initdb; if there is none the error matches [ErrNone].
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
			ErrNone, urlVariable)
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

func freePort() (int, error) {
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return 0, fmt.Errorf("postgres: no free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// output is what the script printed.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	ready chan struct{}
	said  bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.text.Write(p)
	if !o.said && bytes.Contains(o.text.Bytes(), []byte(ready)) {
		o.said = true
		close(o.ready)
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
