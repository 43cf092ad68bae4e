package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

type renderCmd struct {
	Report  string `arg:"" placeholder:"FILE" help:"The report, report.json."`
	Picture string `placeholder:"FILE.svg" help:"Write a picture of it for a README, instead of the tables."`
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
		return write(s, c.Picture, r.WritePicture)
	}
	return r.WriteText(s.out)
}

// write makes a file, and says so.
func write(s streams, path string, content func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(content(f), f.Close()); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "wrote", path)
	return nil
}
