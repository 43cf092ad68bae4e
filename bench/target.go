package bench

import (
	"context"
	"time"
)

// A Target is the RabbitMQ that a benchmark measures. It may also be a [Stopper], a [DiskMeter] and
// a [MemorySource].
type Target interface {
	Product() string // "RabbitMQ"
	Version() string
	How() string // "private node", "container", …

	// Owned says that the broker is ours alone: it may be killed and restarted.
	Owned() bool
	// CPU is the processor time used since the broker was started. An error says that it is not
	// known.
	CPU() (time.Duration, error)
	// RSS is the broker's memory in bytes. An error says that it is not known.
	RSS() (int64, error)
}

// A Stopper can be taken down and brought back, on the same address and with the same data.
type Stopper interface {
	Stop(ctx context.Context) error // in good order; returns when the process is gone
	Kill() error                    // SIGKILL; returns when the process is gone
	Run(ctx context.Context) error  // returns when the broker takes connections
}

// A DiskMeter knows how much disk space the broker's data takes, in bytes.
type DiskMeter interface {
	Disk() (int64, error)
}

// A MemorySource says in a few words what RSS is, where it is not the resident memory of the
// broker's processes.
type MemorySource interface {
	MemorySource() string
}

// stopper is the broker if it may be taken down, and nil if not.
func stopper(b Target) Stopper {
	if b == nil || !b.Owned() {
		return nil
	}
	s, _ := b.(Stopper)
	return s
}
