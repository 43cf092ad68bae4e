package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/bench/report/page"
)

// publish prints the tables, writes the report's files into dir and names them.
func publish(r *bench.Report, dir string, s streams) error {
	if err := report.WriteText(s.out, r); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	return writeFiles(dir, s, append([]outputFile{
		{"report.json", r.WriteJSON}, {"samples.csv.gz", r.WriteSamples},
	}, pages(r)...))
}

// pages are the forms of a report that are made from report.json.
func pages(r *bench.Report) []outputFile {
	var out []outputFile
	for _, form := range []struct {
		name  string
		write func(io.Writer, *bench.Report) error
	}{
		{"report.md", report.WriteMarkdown}, {"report.html", page.Write}, {"report.bench", report.WriteBenchfmt},
	} {
		out = append(out, outputFile{form.name, func(w io.Writer) error { return form.write(w, r) }})
	}
	return out
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
