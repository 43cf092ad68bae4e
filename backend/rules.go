package backend

import "github.com/delayer-go/delayer/internal/misrouted"

// MisroutedRules say what remains of the delay of a misrouted message of this configuration. They ask no broker.
func MisroutedRules(cfg Config) (misrouted.Rules, error) {
	t, err := TopologyOf(cfg)
	if err != nil {
		return misrouted.Rules{}, err
	}
	rules := misrouted.Rules{TTL: misrouted.TTLs(t.plan)}
	switch cfg.Backend {
	case "controller":
		rules.Own = misrouted.WhenDue
	case "plugin":
		rules.Own = misrouted.DeliveredByPlugin
	}
	return rules, nil
}
