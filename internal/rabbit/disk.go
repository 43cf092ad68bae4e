package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ory/dockertest/v3/docker"
)

// diskHost is a host that knows where its data is.
type diskHost interface {
	disk() (bytes int64, err error)
}

// Disk is the disk space in bytes that the broker's data folder takes: blocks in use, not lengths
// of files. It is [ErrNotOwned] of a broker that is not ours.
func (b *Broker) Disk() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.host.(diskHost)
	if !ok {
		return 0, ErrNotOwned
	}
	return h.disk()
}

// duTimeout bounds the look at a container's folder.
const duTimeout = 30 * time.Second

func (c *container) disk() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), duTimeout)
	defer cancel()
	out, err := c.exec(ctx, "du", "-sk", "/var/lib/rabbitmq")
	// Files that go while du looks make it fail, and do not matter.
	fields := bytes.Fields(out)
	if len(fields) == 0 {
		return 0, errors.Join(fmt.Errorf("rabbit: du said %q", out), err)
	}
	kilobytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kilobytes << 10, err
}

// exec runs a command in the container and returns what it wrote to its standard output.
func (c *container) exec(ctx context.Context, command ...string) ([]byte, error) {
	created, err := c.client.CreateExec(docker.CreateExecOptions{
		Context: ctx, Container: c.id, Cmd: command, AttachStdout: true,
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = c.client.StartExec(created.ID, docker.StartExecOptions{Context: ctx, OutputStream: &out})
	return out.Bytes(), err
}
