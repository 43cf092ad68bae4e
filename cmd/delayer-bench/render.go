package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

type renderCmd struct {
	Report  string `arg:"" placeholder:"FILE" help:"The report, report.json."`
	Out     string `xor:"where" placeholder:"DIR" help:"Where to write report.html and report.bench. Default: the report's folder."`
	Picture string `xor:"where" placeholder:"FILE.svg" help:"Write only this picture of the report, for a README."`
}

func (c *renderCmd) Run(s streams) error {
	text, err := os.ReadFile(c.Report)
	if err != nil {
		return err
	}
	r, err := report.Read(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", c.Report, err)
	}
	if c.Picture != "" {
		return write(s, filepath.Dir(c.Picture), outputFile{filepath.Base(c.Picture), r.WritePicture})
	}
	return write(s, cmp.Or(c.Out, filepath.Dir(c.Report)), pages(r)...)
}

// pages are the forms of a report that are made from report.json.
func pages(r *report.Report) []outputFile {
	return []outputFile{{"report.html", r.WriteHTML}, {"report.bench", r.WriteBenchfmt}}
}

type outputFile struct {
	name  string
	write func(io.Writer) error
}

func write(s streams, dir string, files ...outputFile) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		path := filepath.Join(dir, file.name)
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := errors.Join(file.write(f), f.Close()); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "wrote", path)
	}
	return nil
}
