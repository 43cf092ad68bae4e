// Package bench measures how a configuration delays messages: how late, how fast, at what cost to
// the broker, and whether messages are lost, doubled or early.
//
// A [Benchmark] runs scenarios with each [Subject], and returns a report, which package report
// writes as tables and pages. A scenario publishes through a subject in a trial. The trial's
// recorder keeps a sample of every message, and statistics over the raw samples make a run of the
// report. Nothing is aggregated before that: every percentile is exact.
//
//   - Publisher and consumer are one process with one monotonic clock, on separate connections.
//   - Lateness is arrival minus the time the message was due: one delay after its Publish was
//     intended. At a fixed rate that is the schedule, kept or not (no coordinated omission); without
//     one it is just before Publish.
//   - A message is early if it arrives before (the time just before Publish) + delay.
//   - Broker CPU runs from the first Publish to the last arrival, without what an idle broker uses.
package bench
