package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// A result is the outcome of one suite on one target.
type result struct {
	suite   string
	version string           // the broker's, as the tests found it
	counts  map[string]count // by row
	said    []string         // what the tests that failed printed
	broken  string           // why the suite as a whole did not end in good order
}

// A count is of tests that have no subtests.
type count struct{ passed, failed, skipped int }

func (c count) plus(d count) count {
	return count{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped}
}

func (r result) total() (all count) {
	for _, c := range r.counts {
		all = all.plus(c)
	}
	return all
}

func (r result) failed() int { return r.total().failed }

// sum is the result in a few words.
func (r result) sum() string {
	c := r.total()
	text := fmt.Sprintf("%d passed, %d skipped, %d failed", c.passed, c.skipped, c.failed)
	return text + prefixed("; ", r.broken)
}

// event is a line of go test -json.
type event struct{ Action, Test, Output string }

// read parses the output of go test -json.
func read(suite string, stream io.Reader) result {
	r := result{suite: suite, counts: map[string]count{}}
	ended, printed := map[string]string{}, map[string][]string{}
	for dec := json.NewDecoder(stream); ; {
		var e event
		if err := dec.Decode(&e); err != nil {
			break // the stream ends, or the tests died: then they have not ended well, which go test says
		}
		switch e.Action {
		case "output":
			printed[e.Test] = append(printed[e.Test], e.Output)
			if found := brokerLine.FindStringSubmatch(e.Output); found != nil && r.version == "" {
				r.version = found[1]
			}
		case "pass", "fail", "skip":
			ended[e.Test] = e.Action
		}
	}
	r.tally(ended, printed)
	return r
}

// brokerLine matches the line of package rabbittest that names the broker.
var brokerLine = regexp.MustCompile(`broker: RabbitMQ (\S+),`)

func (r *result) tally(ended map[string]string, printed map[string][]string) {
	parents := map[string]bool{"": true}
	for test := range ended {
		for at := strings.LastIndex(test, "/"); at > 0; at = strings.LastIndex(test[:at], "/") {
			parents[test[:at]] = true
		}
	}
	for test, action := range ended {
		if action == "fail" && (!parents[test] || !belowFails(test, ended)) {
			r.said = append(r.said, printed[test]...)
		}
		if parents[test] {
			continue
		}
		one := count{}
		switch action {
		case "pass":
			one.passed = 1
		case "fail":
			one.failed = 1
		case "skip":
			one.skipped = 1
		}
		row := rowOf(test)
		r.counts[row] = r.counts[row].plus(one)
	}
	if ended[""] == "fail" && r.failed() == 0 {
		r.broken = "the tests did not end well"
		for test, lines := range printed {
			if ended[test] == "" { // it was running
				r.said = append(r.said, lines...)
			}
		}
	}
}

// belowFails reports whether a failed subtest explains why a test failed.
func belowFails(test string, ended map[string]string) bool {
	for other, action := range ended {
		if action == "fail" && other != test && (test == "" || strings.HasPrefix(other, test+"/")) {
			return true
		}
	}
	return false
}

var queueTypes = []string{"quorum", "classic"}

// rowOf is the backend and queue type that a test's name tells:
// "TestConformance/binaryladder/topic/quorum/cc" is in "binaryladder/topic, quorum". A test that
// concerns no backend in particular has a row of its own.
func rowOf(test string) string {
	parts := strings.Split(test, "/")[1:]
	for i, part := range parts {
		if slices.Contains(queueTypes, part) && i > 0 {
			return strings.ReplaceAll(strings.Join(parts[:i], "/"), "_", " ") + ", " + part
		}
	}
	if len(parts) > 0 && parts[0] == "plugin" { // its messages wait in no queue
		return "plugin"
	}
	return strings.ReplaceAll(strings.TrimPrefix(test, "Test"), "_", " ")
}
