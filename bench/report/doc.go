// Package report tells what a [bench.Report] found: tables, a verdict, and the forms of a report
// that people and benchstat read. It needs nothing but report.json.
//
//   - measures.go lists the figures, each with its unit and which way is better.
//   - verdict.go lists the rules: which figure answers which question.
//   - job.go lists what a subject must do to win anything.
package report
