// Package notify runs examples/notify as its users would, as processes, breaks everything around them,
// and accounts for every order. The example's demo, its campaign and its test are built on it.
package notify
