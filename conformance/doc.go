// Package conformance holds a [delayer.Delayer] to its contract. It is one suite for all backends, and for one
// of your own:
//
//	func TestConformance(t *testing.T) {
//		worlds, err := rabbitworld.Connect(ctx, rabbitworld.Config{
//			URL:        url,
//			Unroutable: "mine.unroutable", // the queue where your backend keeps what it could not deliver
//			Cut:        func(ctx context.Context) error { … },
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
// The cases run in the order of [Cases], each as a subtest, several at a time; those that disturb the broker
// come last and alone. A case about something that a backend need not be able to do is governed by what its
// Limits declare: what is declared is tested, what is not must fail loudly, and where neither applies the case
// logs why. No case asks for a backend's name. A case that the World cannot do, as to restart a broker that is
// not ours, is reported through [Harness].Skip with the reason.
//
// That nothing is early, lost, or delivered twice (but after a failure) is asserted hard; how late a message
// is, is not asked here but by the benchmark. Where nothing more may arrive, the suite publishes one message
// more and waits for it.
//
// # How to be fast
//
// Delays are chosen from the Limits: a backend opened with a resolution of 10 ms, or tiers of a second or so,
// is through in half a minute; with ticks of a second it takes some times that.
package conformance
