package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/htmlreport"
)

// benchGroup is `delayer bench` with what can be done to its reports.
type benchGroup struct {
	Run     benchCmd   `cmd:"" default:"withargs" help:"Measure; what bench does without a further word."`
	Compare compareCmd `cmd:"" help:"Print what changed from one report.json to another; exit 1 if something got worse."`
	Render  renderCmd  `cmd:"" help:"Write the pages of a report.json again."`
}

// compareCmd is `delayer bench compare`.
type compareCmd struct {
	Before    string `arg:"" placeholder:"A.json" help:"The report to start from."`
	After     string `arg:"" placeholder:"B.json" help:"The report to judge."`
	Tolerance part   `default:"20%" placeholder:"N%" help:"How much worse a figure may be (${default}). What is newly lost, early or twice is never tolerated."`
}

// errWorse is how a comparison fails that could be made.
var errWorse = errors.New("delayer bench compare: worse beyond the tolerance")

// Run prints what changed.
func (c *compareCmd) Run(s streams) error {
	a, err := readReport(c.Before)
	if err != nil {
		return usageError{fmt.Errorf("delayer bench compare: %w", err)}
	}
	b, err := readReport(c.After)
	if err != nil {
		return usageError{fmt.Errorf("delayer bench compare: %w", err)}
	}
	changed, err := bench.Compare(a, b, float64(c.Tolerance))
	if err != nil {
		return usageError{fmt.Errorf("delayer bench compare: %s and %s have %w", c.Before, c.After, err)}
	}
	if err := changed.WriteText(s.out); err != nil {
		return fmt.Errorf("delayer bench compare: %w", err)
	}
	if changed.Worse() {
		return errWorse
	}
	return nil
}

// renderCmd is `delayer bench render`.
type renderCmd struct {
	Report  string `arg:"" placeholder:"report.json" help:"The report."`
	Out     string `placeholder:"DIR" help:"Where to write report.md and report.html. The report's folder by default."`
	Picture string `placeholder:"FILE.svg" help:"Write this picture of the report, for a README, instead."`
}

// Run writes the pages, or the picture.
func (c *renderCmd) Run(s streams) error {
	report, err := readReport(c.Report)
	if err != nil {
		return usageError{fmt.Errorf("delayer bench render: %w", err)}
	}
	dir, files := c.Out, pages(report)
	if c.Picture != "" {
		dir = filepath.Dir(c.Picture)
		files = []outputFile{{filepath.Base(c.Picture), func(w io.Writer) error { return htmlreport.WritePicture(w, report) }}}
	}
	if dir == "" {
		dir = filepath.Dir(c.Report)
	}
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = writeFiles(dir, s, files)
	}
	if err != nil {
		return fmt.Errorf("delayer bench render: %w", err)
	}
	return nil
}

// Validate refuses two answers to where.
func (c *renderCmd) Validate() error {
	if c.Picture != "" && c.Out != "" {
		return errors.New("--out and --picture: one of them (--picture names its own folder)")
	}
	return nil
}

func readReport(path string) (*bench.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	report, err := bench.ReadReport(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

// A part is typed as "20%" or as "0.2".
type part float64

// UnmarshalText reads it.
func (p *part) UnmarshalText(text []byte) error {
	digits, isPercent := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !(v >= 0) {
		return fmt.Errorf("%q: not a tolerance (20%% or 0.2)", text)
	}
	if isPercent {
		v /= 100
	}
	*p = part(v)
	return nil
}
