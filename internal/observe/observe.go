// Package observe calls the functions of a [delayer.Observer].
package observe

// Tell calls f with an event, unless f is nil.
func Tell[E any](f func(E), event E) {
	if f != nil {
		f(event)
	}
}
