package broker

import "sync/atomic"

// A handover passes a value from a job to the one caller who waits for it and who may leave first.
// Either the caller gets the value or the job disposes of it, never both.
type handover[T any] struct {
	claimed atomic.Bool
	value   chan T
	dispose func(T)
}

func newHandover[T any](dispose func(T)) *handover[T] {
	return &handover[T]{value: make(chan T, 1), dispose: dispose}
}

// give passes the value. The job calls it once.
func (h *handover[T]) give(v T) {
	if !h.claimed.CompareAndSwap(false, true) {
		h.dispose(v)
		return
	}
	h.value <- v
}

// take returns the value when the caller stops waiting. ok is false if nothing was given.
func (h *handover[T]) take() (v T, ok bool) {
	if h.claimed.CompareAndSwap(false, true) {
		return v, false
	}
	return <-h.value, true
}
