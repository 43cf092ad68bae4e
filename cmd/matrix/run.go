package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A report holds the results of one target.
type report struct {
	target  target
	image   string
	skipped string // why nothing was run
	day     string
	suites  []result
}

// run runs the suites on a target and prints each result.
func (t target) run(ctx context.Context, o options, which []suite, out io.Writer) report {
	r := report{target: t, image: t.image(o.image), day: time.Now().UTC().Format(time.DateOnly)}
	if why := unavailable(ctx, r.image, o.allow); why != "" {
		r.skipped = fmt.Sprintf("no image %s here, and it cannot be pulled", r.image) // why is this machine's affair: not for the page
		fmt.Fprintf(out, "%s: skipped: %s (%s)\n", t.name, r.skipped, why)
		return r
	}
	for _, s := range which {
		fmt.Fprintf(out, "%s: %s …\n", t.name, s.name)
		began := time.Now()
		res := t.test(ctx, o, s, out)
		fmt.Fprintf(out, "%s: %s: %s, in %v\n", t.name, s.name, res.sum(), time.Since(began).Round(time.Second))
		r.suites = append(r.suites, res)
	}
	return r
}

// unavailable says why an image is not available, or "". It pulls the image if necessary.
func unavailable(ctx context.Context, image string, patience time.Duration) string {
	if exec.CommandContext(ctx, "docker", "image", "inspect", image).Run() == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	said, err := exec.CommandContext(ctx, "docker", "pull", image).CombinedOutput()
	if err == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return first(lines[len(lines)-1], err.Error())
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// test runs one suite, and prints what failed in full.
func (t target) test(ctx context.Context, o options, s suite, out io.Writer) result {
	if _, err := os.Stat(s.pkg); err != nil {
		return result{suite: s.name, broken: "there is no package " + s.pkg}
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout", o.timeout.String(), "-run", s.run, s.pkg)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test ends its tests, and they their broker
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), "AMQP_URL=", "DELAYER_BROKER=docker", "DELAYER_RABBITMQ_IMAGE="+t.image(o.image),
		"DELAYER_TEST_RABBITMQ_CONFIG="+t.conf)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	res := read(s.name, &stdout)
	if err != nil && res.failed() == 0 && res.broken == "" {
		res.broken = first(strings.TrimSpace(stderr.String()), err.Error())
	}
	for _, line := range res.said {
		fmt.Fprint(out, line)
	}
	return res
}
