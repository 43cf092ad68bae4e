package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A file is the plugin, and the digest that it must have.
type file struct {
	name    string
	content []byte
	digest  string
}

func readLocal(path, digest string) (file, error) {
	content, err := os.ReadFile(path)
	return file{filepath.Base(path), content, digest}, err
}

// check compares the SHA-256.
func (f file) check() error {
	want := strings.ToLower(strings.TrimPrefix(f.digest, "sha256:"))
	sum := sha256.Sum256(f.content)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("%s: its SHA-256 is %s, and %q is expected: nothing is installed", f.name, got, want)
	}
	return nil
}

// place writes the file into a plugin folder, under its name only when it is whole.
func (f file) place(folder string, out io.Writer) error {
	path := filepath.Join(folder, f.name)
	part := path + ".part"
	if err := os.WriteFile(part, f.content, 0o644); err != nil {
		return fmt.Errorf("%w (run it as a user who may write there, such as root)", err)
	}
	if err := os.Rename(part, path); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	fmt.Fprintf(out, "installed %s\nenable it: rabbitmq-plugins enable %s\n", path, pluginName)
	return nil
}

// pluginFolders is where packages and archives put RabbitMQ's plugins.
var pluginFolders = []string{
	"/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins", // Debian, Ubuntu, Fedora
	"/opt/rabbitmq/plugins",                           // the generic archive
	"/opt/homebrew/opt/rabbitmq/plugins",
	"/usr/local/opt/rabbitmq/plugins",
}

// installed finds the plugin folder of the RabbitMQ on this machine, and its series: the folder
// holds rabbit-3.10.8, or rabbit-3.10.8.ez.
func installed(patterns []string) (folder, series string, err error) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(pattern, "rabbit-[0-9]*"))
		for _, core := range found {
			if match := coreVersion.FindStringSubmatch(filepath.Base(core)); match != nil {
				return filepath.Dir(core), match[1], nil
			}
		}
	}
	return "", "", errors.New("no RabbitMQ is installed here (name the series and the folder: SERIES=4.0 FOLDER=…; or build an image: SERIES=4.0 IMAGE=1)")
}

var coreVersion = regexp.MustCompile(`^rabbit-(\d+\.\d+)\.\d+`)

// buildImage builds rabbitmq:<series>-delayed.
func buildImage(ctx context.Context, series string, f file, out io.Writer) error {
	folder, err := os.MkdirTemp("", "delayer-plugin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // temporary
	if err := os.WriteFile(filepath.Join(folder, f.name), f.content, 0o644); err != nil {
		return err
	}
	image := "rabbitmq:" + series + "-delayed"
	cmd := exec.CommandContext(ctx, "docker", "build", "--tag", image, "--file", "-", folder)
	cmd.Stdin = bytes.NewReader(dockerfile(series, f.name))
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("docker build: %w", err)
	}
	fmt.Fprintf(out, "built %s; tests take it with DELAYER_RABBITMQ_IMAGE=%s\n", image, image)
	return nil
}

// dockerfile adds the plugin to the image of a series, where its RabbitMQ has its plugins.
func dockerfile(series, name string) []byte {
	return fmt.Appendf(nil, "FROM rabbitmq:%s\nCOPY %s /tmp/\n"+
		"RUN set -e; for rabbit in %s; do if [ -e \"$rabbit\" ]; then mv /tmp/%s \"${rabbit%%/*}/\"; exit 0; fi; done; exit 1\n",
		series, name, strings.Join(inImage(), " "), name)
}

func inImage() []string {
	patterns := make([]string, len(pluginFolders))
	for i, folder := range pluginFolders {
		patterns[i] = folder + "/rabbit-[0-9]*"
	}
	return patterns
}
