package main

import "github.com/delayer-go/delayer/backend"

// brokerFlags say which broker, and what its Delayers are.
type brokerFlags struct {
	Config string `placeholder:"FILE" help:"The configuration of the Delayers, YAML or JSON. DELAYER_… variables override it."`
	URL    string `placeholder:"AMQP" help:"The broker, instead of the configuration's. Other users of this machine can see it: put a password into DELAYER_URL."`
}

// load reads the configuration; the flags override it.
func (f *brokerFlags) load() (backend.Config, error) { return loadBroker(f.Config, f.URL) }
