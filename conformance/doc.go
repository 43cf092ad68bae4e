// Package conformance tests a [delayer.Delayer] against its contract. It is one suite for all
// backends, and for your own:
//
//	func TestConformance(t *testing.T) {
//		worlds, err := rabbitworld.Open(ctx, rabbitworld.Config{
//			URL:        url,
//			Unroutable: "mine.unroutable", // the queue where your backend keeps unroutable messages
//			Cut:        func(ctx context.Context) error { … },
//			Suspend:    func(ctx context.Context, queue string) (resume func(context.Context) error, err error) { … },
//			OwnExchange: "mine.delivery",  // or none, if it cannot do without one
//			Restart:    func(ctx context.Context) error { … },
//		})
//		…
//		defer worlds.Close()
//		conformance.Run(t, conformance.Harness{
//			Open:  func(ctx context.Context) (delayer.Delayer, error) { return mine.Open(ctx, url) },
//			World: worlds.World,
//			User:  "guest",
//		})
//	}
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
