package page_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/report/page"
)

// report.html of a report.json: one file that loads nothing.
func ExampleWrite() {
	f, err := os.Open("../../../docs/results/3.10/report.json")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	report, err := bench.ReadReport(f)
	if err != nil {
		log.Fatal(err)
	}
	var html bytes.Buffer
	if err := page.Write(&html, report); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(html.String(), "<svg"), strings.Contains(html.String(), "<script"))
	// Output: true false
}
