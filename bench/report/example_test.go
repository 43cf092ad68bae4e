package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/delayer-go/delayer/bench/report"
)

// The pages of a report.json, from any program.
func ExampleRead() {
	f, err := os.Open("../../docs/results/3.10.json")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := report.Read(f)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Broker.Product, r.Partial)

	var html, benchfmt bytes.Buffer
	if err := errors.Join(r.WriteHTML(&html), r.WriteBenchfmt(&benchfmt)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(html.String(), "<svg"), strings.Contains(html.String(), "<script"))
	for line := range strings.Lines(benchfmt.String()) {
		if name := strings.Fields(line); len(name) > 0 && strings.HasPrefix(name[0], "BenchmarkAccuracy") {
			fmt.Println(name[0])
			break
		}
	}
	// Output:
	// RabbitMQ false
	// true false
	// BenchmarkAccuracy/subject=binaryladder_source/queues=quorum/messages=5000
}
