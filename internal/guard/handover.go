package guard

import "sync/atomic"

// A handover passes a value from a job to the one caller who waits for it, and who may leave first.
// Either the caller gets the value or the job disposes of it, never both.
type handover[T any] struct {
	claimed atomic.Bool
	value   chan T
	dispose func(T)
}

func newHandover[T any](dispose func(T)) *handover[T] {
	return &handover[T]{value: make(chan T, 1), dispose: dispose}
}

// give is called by the job, once.
func (h *handover[T]) give(v T) {
	if !h.claimed.CompareAndSwap(false, true) {
		h.dispose(v)
		return
	}
	h.value <- v
}

// take is called by the caller when it no longer waits for the job. ok is false where nothing was
// given.
func (h *handover[T]) take() (v T, ok bool) {
	if h.claimed.CompareAndSwap(false, true) {
		return v, false
	}
	return <-h.value, true
}
