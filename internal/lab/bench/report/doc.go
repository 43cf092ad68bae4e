// Package report holds the result of a benchmark and writes it for people and programs: tables for
// a terminal, report.html, a picture, and benchstat's format. All of them need only report.json.
// Several repetitions of a run are shown as their median, the lowest and the highest.
package report
