// Command delayer works with Delayer in production: it sends messages, runs a controller or an outbox
// relay, shows and checks the topology, and cares for unroutable messages. See delayer --help.
package main

import "github.com/delayer-go/delayer/internal/cli"

func main() { cli.Main(run) }
