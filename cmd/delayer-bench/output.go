package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/delayer-go/delayer/bench/report"
)

// pages are the forms of a report that are made from report.json.
func pages(r *report.Report) []outputFile {
	return []outputFile{{"report.md", r.WriteMarkdown}, {"report.html", r.WriteHTML}, {"report.bench", r.WriteBenchfmt}}
}

// An outputFile is a file to be written.
type outputFile struct {
	name  string
	write func(io.Writer) error
}

func writeFiles(dir string, s streams, files []outputFile) error {
	for _, file := range files {
		path := filepath.Join(dir, file.name)
		if err := writeFile(path, file.write); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "wrote", path)
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
