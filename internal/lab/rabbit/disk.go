package rabbit

import (
	"errors"
	"fmt"
)

// diskHost is a host that knows where its data is.
type diskHost interface {
	disk() (bytes int64, err error)
}

// Disk is the disk space in bytes that the broker's data folder takes: blocks in use, not lengths
// of files, to 1 KiB. It is [ErrNotOwned] of a broker that is not ours.
func (b *Broker) Disk() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.host.(diskHost)
	if !ok {
		return 0, ErrNotOwned
	}
	return h.disk()
}

// diskUsed reads what du said. Files that go while du looks make it fail, and do not matter.
func diskUsed(said string, err error) (int64, error) {
	var kilobytes int64
	if n, _ := fmt.Sscan(said, &kilobytes); n == 0 {
		return 0, errors.Join(fmt.Errorf("rabbit: du said %q", said), err)
	}
	return kilobytes << 10, nil
}
