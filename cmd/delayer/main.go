// Command delayer runs Delayer in production. It sends messages, runs a controller, prints and
// checks the topology, and handles undelivered messages. See delayer --help.
package main

import "github.com/delayer-go/delayer/internal/app/cli"

func main() { cli.Main(run) }
