// Package hold keeps messages in memory until they are due. It is pure: it has no clock, no timer and
// no lock, so that the loop of a consumer, or a state machine, can own it.
package hold

import (
	"container/heap"
	"time"
)

// A Heap holds messages, the first due on top. It is bounded in messages and in bytes, because what is
// held is unacknowledged at the broker. It is not safe for concurrent use.
type Heap[T any] struct {
	most, mostBytes int

	items items[T]
	bytes int
}

// New returns a Heap for so many messages and bytes.
func New[T any](most, mostBytes int) *Heap[T] { return &Heap[T]{most: most, mostBytes: mostBytes} }

// Add holds a message of so many bytes until it is due, or returns false if there is no room.
func (h *Heap[T]) Add(due time.Time, size int, message T) bool {
	if len(h.items) >= h.most || h.bytes+size > h.mostBytes {
		return false
	}
	h.bytes += size
	heap.Push(&h.items, item[T]{due, size, message})
	return true
}

// Take removes the first message that is due by now. ok is false if there is none.
func (h *Heap[T]) Take(now time.Time) (message T, size int, ok bool) {
	if len(h.items) == 0 || h.items[0].due.After(now) {
		return message, 0, false
	}
	first := heap.Pop(&h.items).(item[T])
	h.bytes -= first.size
	return first.message, first.size, true
}

// Next is when the first message is due. ok is false if none is held.
func (h *Heap[T]) Next() (due time.Time, ok bool) {
	if len(h.items) == 0 {
		return due, false
	}
	return h.items[0].due, true
}

// Len is the number of messages.
func (h *Heap[T]) Len() int { return len(h.items) }

// Bytes is the sum of their sizes.
func (h *Heap[T]) Bytes() int { return h.bytes }

type item[T any] struct {
	due     time.Time
	size    int
	message T
}

// items implements heap.Interface.
type items[T any] []item[T]

func (s items[T]) Len() int           { return len(s) }
func (s items[T]) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s items[T]) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *items[T]) Push(x any)        { *s = append(*s, x.(item[T])) }

func (s *items[T]) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = item[T]{} // lets go of the message
	*s = (*s)[:last]
	return x
}
