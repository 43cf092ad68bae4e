// Command install-plugin fetches a release of the plugin rabbitmq_delayed_message_exchange, checks
// its digest and puts it where RabbitMQ finds it. `make install-plugin` runs it.
//
// The digest is the one that the releases' API gives, or one given by the user. Without any nothing
// is installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// options are the flags.
type options struct {
	series string
	folder string
	docker bool
	file   string
	digest string
	api    string
}

// publicAPI is where the plugin's releases are listed.
const publicAPI = "https://api.github.com"

func main() {
	var o options
	flag.StringVar(&o.series, "series", "", "of RabbitMQ, such as 4.0; empty for that of the installed one")
	flag.StringVar(&o.folder, "folder", "", "put it into this plugin folder; empty for that of the installed RabbitMQ")
	flag.BoolVar(&o.docker, "docker", false, "build the image rabbitmq:<series>-delayed from rabbitmq:<series> instead")
	flag.StringVar(&o.file, "file", "", "take this local .ez file instead of a release; needs -digest")
	flag.StringVar(&o.digest, "digest", "", "the SHA-256 that the file must have, in hexadecimal; empty for the one that the API gives")
	flag.StringVar(&o.api, "mirror", publicAPI, "an address that answers as the releases' API does")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "install-plugin:", err)
		os.Exit(1)
	}
}

// run finds the file, checks it, and puts it into its place.
func run(ctx context.Context, o options, out io.Writer) error {
	if err := o.locate(); err != nil {
		return err
	}
	f, err := o.find(ctx)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d bytes, SHA-256 as expected\n", f.name, len(f.content))
	if o.docker {
		return buildImage(ctx, o.series, f, out)
	}
	return f.place(o.folder, out)
}

// locate completes what the installed RabbitMQ says.
func (o *options) locate() error {
	if !o.docker && o.folder == "" || o.series == "" {
		folder, series, err := installed(pluginFolders)
		switch {
		case err != nil && o.docker:
			return fmt.Errorf("%w, and no series is given (SERIES=4.0)", err)
		case err != nil:
			return err
		}
		if o.folder == "" {
			o.folder = folder
		}
		if o.series == "" {
			o.series = series
		}
	}
	if !supported(o.series) {
		return fmt.Errorf("RabbitMQ %s cannot run the plugin: its last release is for 4.2, as Mnesia is gone since", o.series)
	}
	return nil
}

// find reads the local file, or fetches the release.
func (o *options) find(ctx context.Context) (file, error) {
	if o.file == "" {
		return fetch(ctx, strings.TrimSuffix(o.api, "/"), o.series, o.digest)
	}
	if o.digest == "" {
		return file{}, errors.New("a local file needs the digest that it must have (DIGEST=…)")
	}
	return readLocal(o.file, o.digest)
}
