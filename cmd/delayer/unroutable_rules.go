package main

import (
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/plugin"
	"github.com/delayer-go/delayer/internal/misrouted"
	"github.com/delayer-go/delayer/internal/topology"
)

// misroutedRules returns the rules that compute remaining delays with this configuration.
func misroutedRules(cfg backend.Config) (misrouted.Rules, error) {
	t, err := backend.Topology(cfg)
	if err != nil {
		return misrouted.Rules{}, err
	}
	rules := misrouted.Rules{TTL: misrouted.TTLs(t.(topology.Plan))}
	switch cfg.Backend {
	case controller.Name:
		rules.Own = misrouted.WhenDue
	case plugin.Name:
		rules.Own = misrouted.DeliveredByPlugin
	}
	return rules, nil
}
