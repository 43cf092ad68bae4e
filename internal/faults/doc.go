// Package faults shows what becomes of every message while things break. Tests and the command faults use it; nothing
// that a consumer of this module links does.
//
// A [Run] publishes to one Delayer from many goroutines at a steady pace, consumes what arrives and writes both into a
// [Ledger], which then accounts for every message: confirmed, refused or unknown, and delivered, twice, early or
// missing. A [Fault] is what is done meanwhile, to a broker, a [Proxy] in front of it, a controller or a destination. A
// [Campaign] does one fault to several Delayers at once.
//
// Publishers repeat nothing: each attempt is a message of its own, so that a Delayer's answer is held against what
// happened to that message.
package faults
