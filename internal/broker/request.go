package broker

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A request goes from Publish to the goroutine that writes, which answers on written.
type request struct {
	msg     Publishing
	copied  bool // the caller may leave before the message is written: its memory must not be read then
	written chan writeResult

	mu    sync.Mutex // held while the writer copies, so that a caller who leaves waits for that
	state requestState
}

type requestState int

const (
	queued requestState = iota
	taken
	withdrawn
)

// A writeResult is what a message that was handed to amqp091-go waits with, or why it was not.
type writeResult struct {
	confirm *amqp091.DeferredConfirmation
	channel *openChannel
	err     *delayer.Error
}

// take makes the request the writer's, unless its caller has left. What the message shares with the
// caller is copied, its body into buffer, which is returned.
func (r *request) take(buffer []byte) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == withdrawn {
		return buffer, false
	}
	r.state = taken
	if r.copied {
		buffer = append(buffer[:0], r.msg.Message.Body...)
		r.msg.Message.Body = buffer
		r.msg.Message.Headers, _ = copyTable(r.msg.Message.Headers)
	}
	return buffer, true
}

// withdraw reports whether the message will not be sent: the writer had not taken it. Either way
// the caller's memory is not read any more.
func (r *request) withdraw() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == queued {
		r.state = withdrawn
	}
	return r.state == withdrawn
}

// answer ends a request that is not written.
func (r *request) answer(err *delayer.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == queued {
		r.state = taken
		r.written <- writeResult{err: err}
	}
}

// copyBytes returns value with its own byte slices, and whether it holds any.
func copyBytes(value any) (own any, changed bool) {
	switch v := value.(type) {
	case []byte:
		return bytes.Clone(v), true
	case amqp091.Table:
		return copyTable(v)
	case []any:
		return copyList(v)
	}
	return value, false
}

func copyTable(t amqp091.Table) (own amqp091.Table, changed bool) {
	own = t
	for name, value := range t {
		copied, is := copyBytes(value)
		if !is {
			continue
		}
		if !changed {
			own, changed = maps.Clone(t), true
		}
		own[name] = copied
	}
	return own, changed
}

func copyList(list []any) (own []any, changed bool) {
	own = list
	for i, value := range list {
		copied, is := copyBytes(value)
		if !is {
			continue
		}
		if !changed {
			own, changed = slices.Clone(list), true
		}
		own[i] = copied
	}
	return own, changed
}
