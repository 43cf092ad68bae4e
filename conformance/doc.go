// Package conformance tests a [delayer.Delayer] against its contract. It is one suite for all
// backends, and for your own: call [Run] in a test, with a [World] of package rabbitworld.
//
// # What is tested
//
// The cases run in the order of [Cases], each as a subtest, several at a time. Those that disturb
// the broker come last and alone. Optional abilities depend on the Limits: a declared ability is
// tested, an undeclared one must fail with an error, and if neither applies the case is skipped and
// says why, without [Harness].Skip. No case asks for a backend's name. A case that the World cannot
// do, such as to restart a broker that is not ours, is reported through [Harness].Skip with the
// reason.
//
// The suite asserts that no message is early, lost, or, except after a failure, delivered twice. It
// does not ask how late messages are: that is for the benchmark. To check that nothing more
// arrives, it publishes one more message and waits for that.
//
// # How to be fast
//
// Delays are chosen from the Limits. With a resolution of 10 ms, or tiers of about a second, the
// suite takes half a minute. With ticks of a second it takes several times that.
package conformance
