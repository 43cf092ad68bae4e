// Package bench measures what a way of delaying messages really does: how late, how fast, at what cost
// to the broker, and whether anything is lost, doubled or early.
//
// Data flows one way. A [Subject] opens a Delayer; a [Scenario] publishes through it in a [Trial];
// the trial's recorder keeps a [Sample] of every message; statistics over the raw samples make a
// [Run]; the runs make a [Report], and the renderers write it as JSON, Markdown and a terminal table.
// Nothing is aggregated before that: every percentile is exact.
//
// # What is measured, and how
//
//   - Publisher and consumer are one process with one monotonic clock, on connections of their own.
//   - Lateness is arrival minus the time the message was due. It was due one delay after the time its
//     Publish was intended: at a fixed rate that is the schedule, kept or not, so a slow publisher cannot
//     hide its own delay (no coordinated omission); as fast as confirmed, it is just before Publish.
//   - Early is an arrival before (the time just before Publish) + delay. It is never averaged away: one
//     early, lost or doubled message fails the run, unless its subject is a baseline.
//   - The destination is one durable classic queue, fresh for each run, consumed with automatic acks.
//   - Broker CPU runs from the first Publish to the last arrival. What the broker uses while idle, measured
//     beforehand, is subtracted and stated in the report.
package bench
