// Package amqpclient is the AMQP client of the tools around the library: the conformance suite, the
// fault campaign, the benchmark and the launcher of brokers.
//
// It shares no code with internal/lib/broker, so that the library is not tested with itself.
package amqpclient
