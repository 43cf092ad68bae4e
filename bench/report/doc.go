// Package report holds the result of a benchmark and writes it for people and programs: tables for
// a terminal, Markdown, an HTML page, a picture, and benchstat's format. All of them need only
// report.json.
//
//   - report.go and run.go are report.json.
//   - measures.go lists the figures, each with its unit and whether higher is better.
//   - verdict.go lists the rules: which figure answers which question.
//   - job.go lists what a subject must do to win anything.
//   - charts.go says which charts a scenario has.
//
// # The HTML page
//
//   - It is one file. It loads nothing and runs no script.
//   - Every chart is inline SVG with a title and a description, and has its figures in a table
//     beside it.
//   - It is legible in light and dark (prefers-color-scheme), on a phone, in print, by keyboard and
//     with a screen reader. Colour never says something alone.
//   - Scenarios that did not run and figures that were not measured are absent.
//   - Positions in a chart are percentages, so its text keeps its size at any width.
package report
