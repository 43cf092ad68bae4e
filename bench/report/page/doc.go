// Package page draws a bench.Report: as report.html, one file that needs nothing else, and as a
// picture for a README.
//
// # What the page promises
//
//   - It is one file. It loads nothing, runs no script, and reads no raw samples: report.json is
//     enough.
//   - Every chart is inline SVG with a title and a description, and has its figures in a table
//     beside it.
//   - It is legible in light and dark (prefers-color-scheme), on a phone, in print, by keyboard and
//     with a screen reader. Colour never says something alone.
//   - What a report does not hold is absent: scenarios that did not run, figures that were not
//     measured.
//
// # How it is made
//
// Data flows in one direction. The report's runs are grouped by scenario and type of queue; each
// scenario has its figures as values, in figures.go; charts turn these into SVG (mountain.go,
// bars.go, panel.go); the template puts them in their places. Text in a chart keeps its size
// whatever the chart's width, since positions are percentages.
package page
