package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

type renderCmd struct {
	Report  string `arg:"" placeholder:"FILE" help:"The report, report.json."`
	Out     string `placeholder:"DIR" help:"Where to write report.html and report.bench. Default: the report's folder."`
	Picture string `placeholder:"FILE.svg" help:"Write only this picture of the report, for a README."`
}

func (c *renderCmd) Run(s streams) error {
	r, err := readReport(c.Report)
	if err != nil {
		return err
	}
	dir, files := c.Out, pages(r)
	if c.Picture != "" {
		dir = filepath.Dir(c.Picture)
		files = []outputFile{{filepath.Base(c.Picture), r.WritePicture}}
	}
	if dir == "" {
		dir = filepath.Dir(c.Report)
	}
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = writeFiles(dir, s, files)
	}
	return err
}

func (c *renderCmd) Validate() error {
	if c.Picture != "" && c.Out != "" {
		return errors.New("--out and --picture: one of them (--picture names its own folder)")
	}
	return nil
}

func readReport(path string) (*report.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	r, err := report.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// pages are the forms of a report that are made from report.json.
func pages(r *report.Report) []outputFile {
	return []outputFile{{"report.html", r.WriteHTML}, {"report.bench", r.WriteBenchfmt}}
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
