package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/delayer-go/delayer/bench"
)

// publish prints the tables, writes the report's files into dir and names them.
func publish(report *bench.Report, dir string, s streams) error {
	if err := report.WriteTable(s.out); err != nil {
		return err
	}
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"report.json", report.WriteJSON},
		{"report.md", report.WriteMarkdown},
	}
	fmt.Fprintln(s.out)
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
