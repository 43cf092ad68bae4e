package controller

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// A held message waits in memory for its last moments.
type held struct {
	due     time.Time
	size    int // bytes
	release func()
}

// A holder keeps messages in memory until they are due. It is a heap with one timer. Its size is
// bounded in messages and in bytes: they are unacknowledged at the broker.
type holder struct {
	most, mostBytes int

	mu    sync.Mutex
	heap  heldHeap
	bytes int
	wake  chan struct{} // buffered: the first of the heap has changed
}

func newHolder(most, mostBytes int) *holder {
	return &holder{most: most, mostBytes: mostBytes, wake: make(chan struct{}, 1)}
}

// add keeps m until it is due, or returns false where there is no room.
func (h *holder) add(m held) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.heap) >= h.most || h.bytes+m.size > h.mostBytes {
		return false
	}
	h.bytes += m.size
	heap.Push(&h.heap, m)
	if h.heap[0].due.Equal(m.due) {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// drop forgets what is held, once run has ended, and returns by how much that changes the memory.
func (h *holder) drop() (messages, bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	messages, bytes = -len(h.heap), -h.bytes
	h.heap, h.bytes = nil, 0
	return messages, bytes
}

// run releases each message when it is due, never before, in the order of due times, until ctx
// ends.
func (h *holder) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(h.releaseDue())
		select {
		case <-timer.C:
		case <-h.wake:
		case <-ctx.Done():
			return
		}
	}
}

// releaseDue releases what is due and returns how long the next one has.
func (h *holder) releaseDue() time.Duration {
	for {
		now := time.Now()
		h.mu.Lock()
		if len(h.heap) == 0 {
			h.mu.Unlock()
			return time.Hour
		}
		if left := h.heap[0].due.Sub(now); left > 0 {
			h.mu.Unlock()
			return left
		}
		m := heap.Pop(&h.heap).(held)
		h.bytes -= m.size
		h.mu.Unlock()
		m.release()
	}
}

// heldHeap implements heap.Interface: the first due is on top.
type heldHeap []held

func (h heldHeap) Len() int           { return len(h) }
func (h heldHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h heldHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heldHeap) Push(m any)        { *h = append(*h, m.(held)) }

func (h *heldHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = held{} // lets go of the message
	*h = (*h)[:last]
	return m
}
