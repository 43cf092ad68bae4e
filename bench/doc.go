// Package bench measures how a strategy delays messages: how late, how fast, at what cost to the
// broker, and whether messages are lost, doubled or early.
//
// Data flows in one direction. A [Subject] opens a Delayer. A [Scenario] publishes through it in a
// [Trial]. The trial's recorder keeps a [Sample] of every message. Statistics over the raw samples
// make a [Run], and the runs make a [Report]. Nothing is aggregated before that: every percentile
// is exact. Package report, below this one, makes tables, pages and a verdict of a Report.
//
// # What is measured, and how
//
//   - Publisher and consumer are one process with one monotonic clock, on separate connections.
//   - Lateness is arrival minus the time the message was due. It was due one delay after the time
//     when its Publish was intended. At a fixed rate that is the schedule, kept or not, so a slow
//     publisher cannot hide its own delay (no coordinated omission). Without a rate it is just
//     before Publish.
//   - A message is early if it arrives before (the time just before Publish) + delay. One early,
//     lost or doubled message fails the run, unless its subject is a baseline.
//   - The destination is one durable classic queue, fresh for each run, with automatic acks.
//   - Broker CPU runs from the first Publish to the last arrival. What the idle broker uses is
//     measured beforehand, subtracted, and stated in the report.
package bench
