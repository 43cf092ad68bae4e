// Package faults injects failures and accounts for every message. Only tests and the command faults
// use it.
//
// A [Run] publishes to one Delayer from many goroutines at a steady rate, consumes the messages,
// and keeps an account of every message: confirmed, refused or
// unknown, and delivered, twice, early or missing. A [Fault] is injected meanwhile: into a broker,
// a [Proxy] in front of it, a controller or a destination. A [Campaign] injects one fault for
// several Delayers at once.
//
// Publishers retry nothing. Each attempt is a separate message, so that Publish's answer is
// compared with what happened to that message.
package faults
