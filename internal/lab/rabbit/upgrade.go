package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// Upgrade stops a broker in Docker, and goes on with its data in a container of another image, as
// an operator upgrades RabbitMQ in place. Its addresses and commands change, as do its version and
// plugins: nobody else may use the broker meanwhile. If it fails the broker is down, and Close
// removes it.
func (b *Broker) Upgrade(ctx context.Context, image string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.host.(*container)
	if !ok {
		return fmt.Errorf("rabbit: only a broker in Docker can be upgraded, not the %s", b.How())
	}
	if err := b.stopLocked(ctx); err != nil {
		return err
	}
	o := old.options
	o.Image = image
	c, err := containerOf(ctx, old.client, o, old.hostname)
	if err != nil {
		return err
	}
	if err := old.copyData(ctx, c); err != nil {
		return errors.Join(err, c.close())
	}
	b.host, b.about = c, about{}
	return errors.Join(b.runLocked(ctx), old.close())
}

// copyData copies the server's data to a container in which it does not run.
func (c *container) copyData(ctx context.Context, to *container) error {
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := c.pipe(ctx, nil, write, &bytes.Buffer{}, "tar", "-C", containerData, "-cf", "-", ".")
		_ = write.CloseWithError(err)
		done <- err
	}()
	err := to.pipe(ctx, read, io.Discard, &bytes.Buffer{}, "tar", "-C", containerData, "-xpf", "-")
	_ = read.CloseWithError(err)
	return errors.Join(err, <-done)
}
