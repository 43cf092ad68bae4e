package rabbittest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// summarize prints what was skipped and appends it, with the broker, to the file for the whole run.
func summarize() error {
	lines := skippedLines()
	for _, line := range lines {
		fmt.Println(line)
	}
	name := os.Getenv("DELAYER_TEST_SUMMARY")
	if name == "" {
		return nil
	}
	if shared.broker != nil {
		lines = append([]string{fmt.Sprintf("broker: %v", shared.broker)}, lines...)
	}
	if len(lines) == 0 {
		return nil
	}
	return appendLines(name, lines)
}

// noteSkip keeps the name of a test for the summary.
func noteSkip(test, reason string) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.skipped == nil {
		shared.skipped = map[string][]string{}
	}
	shared.skipped[reason] = append(shared.skipped[reason], test)
}

// skippedLines has a line for each reason.
func skippedLines() []string {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	var lines []string
	for _, reason := range slices.Sorted(maps.Keys(shared.skipped)) {
		tests := strings.Join(shared.skipped[reason], ", ")
		lines = append(lines, fmt.Sprintf("skipped: %s: %s", tests, reason))
	}
	return lines
}

// appendLines writes all lines in one piece, because packages may be tested at the same time.
func appendLines(name string, lines []string) error {
	test := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "%s: %s\n", test, line)
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(text.String()); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
