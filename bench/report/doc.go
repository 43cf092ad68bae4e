// Package report turns a [bench.Report] into tables, a verdict, Markdown, and benchstat's format.
// It needs only report.json.
//
//   - measures.go lists the figures, each with its unit and whether higher is better.
//   - verdict.go lists the rules: which figure answers which question.
//   - job.go lists what a subject must do to win anything.
package report
