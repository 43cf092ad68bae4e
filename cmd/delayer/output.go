package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/htmlreport"
)

// publish prints the tables, writes the report's files into dir and names them.
func publish(report *bench.Report, dir string, s streams) error {
	if err := report.WriteTable(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	return writeFiles(dir, s, append([]outputFile{
		{"report.json", report.WriteJSON}, {"samples.csv.gz", report.WriteSamples},
	}, pages(report)...))
}

// pages are the forms of a report that people read.
func pages(report *bench.Report) []outputFile {
	return []outputFile{
		{"report.md", report.WriteMarkdown},
		{"report.html", func(w io.Writer) error { return htmlreport.Write(w, report) }},
	}
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
