package rounds

import (
	"container/heap"
	"time"
)

// A memory holds messages until they are due. It is bounded in messages and in bytes, because what
// is held is unacknowledged at the broker. It is pure, and not safe for concurrent use.
type memory[T any] struct {
	most, mostBytes int

	items items[T]
	bytes int
}

func newMemory[T any](most, mostBytes int) *memory[T] {
	return &memory[T]{most: most, mostBytes: mostBytes}
}

// add holds a message of so many bytes until it is due, or returns false if there is no room.
func (m *memory[T]) add(due time.Time, size int, message T) bool {
	if len(m.items) >= m.most || m.bytes+size > m.mostBytes {
		return false
	}
	m.bytes += size
	heap.Push(&m.items, item[T]{due, size, message})
	return true
}

// take removes the first message that is due by now. ok is false if there is none.
func (m *memory[T]) take(now time.Time) (message T, size int, ok bool) {
	if len(m.items) == 0 || m.items[0].due.After(now) {
		return message, 0, false
	}
	first := heap.Pop(&m.items).(item[T])
	m.bytes -= first.size
	return first.message, first.size, true
}

// next is when the first message is due. ok is false if none is held.
func (m *memory[T]) next() (due time.Time, ok bool) {
	if len(m.items) == 0 {
		return due, false
	}
	return m.items[0].due, true
}

type item[T any] struct {
	due     time.Time
	size    int
	message T
}

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
