package broker

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A request goes from Publish to the goroutine that writes, which answers on written.
type request struct {
	msg     Publishing
	slots   int  // of its channel: one, or all of a channel where it is alone
	copied  bool // take has copied the caller's memory, which must not be read once the caller has left
	written chan writeResult

	mu    sync.Mutex // held while the writer copies: a caller who leaves waits for it
	state requestState
}

type requestState int

const (
	queued requestState = iota
	taken
	withdrawn
)

// requests keeps requests for reuse: three allocations less a message.
var requests = sync.Pool{New: func() any { return &request{written: make(chan writeResult, 1)} }}

// newRequest returns a request for a message. copied: the caller may leave before it is written.
func newRequest(msg Publishing, slots int, copied bool) *request {
	r := requests.Get().(*request)
	r.msg, r.slots, r.copied, r.state = msg, slots, copied, queued
	return r
}

// recycle gives the request up for reuse. Only a caller who has the confirm may call it: nobody
// else knows the request then.
func (r *request) recycle() {
	r.msg = Publishing{}
	requests.Put(r)
}

// A writeResult is the pending confirm of a message that was written, or why it was not written.
type writeResult struct {
	confirm *amqp091.DeferredConfirmation
	channel *openChannel
	err     *delayer.Error
}

// confirmed waits for the confirm. It returns false if ctx ends before it.
func (w writeResult) confirmed(ctx context.Context) bool {
	select {
	case <-w.confirm.Done():
		return true
	case <-ctx.Done():
	}
	select {
	case <-w.confirm.Done(): // select chooses at random where both are ready
		return true
	default:
		return false
	}
}

// take gives the request to the writer. It returns false if the caller has left. It copies the
// memory that the message shares with the caller, the body into buffer, which it returns.
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

// withdraw reports whether the message will not be sent, because the writer had not taken it. In
// both cases the caller's memory is not read any more.
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
