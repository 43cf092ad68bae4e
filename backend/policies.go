package backend

import (
	"context"
	"errors"
	"net/http"

	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/policy"
	"github.com/delayer-go/delayer/internal/topology"
)

// inspector looks at policies where the configuration says how, or is nil.
func (c Config) inspector() (func(context.Context, topology.Plan) error, error) {
	if c.Management == "" {
		return nil, nil
	}
	m, err := c.management()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p topology.Plan) error { return m.Check(ctx, c.Prefix, p) }, nil
}

func (c Config) management() (*policy.Management, error) {
	vhost, err := broker.Vhost(c.URL)
	if err != nil {
		return nil, err
	}
	// One connection for each call: they are seconds apart, and none is left when a Delayer is closed.
	return policy.NewManagement(c.Management, vhost, &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: c.TLS.Clone(), Proxy: http.ProxyFromEnvironment,
	})
}

// Verify asks the management API of the configuration which policies apply to what [Open] declares, and returns a
// sentence for each that would make messages early, lose them, or send them astray. The error is ErrConfig without
// an address in Config.Management, and ErrUnavailable or ErrAccess where the API does not answer.
func Verify(ctx context.Context, cfg Config) (problems []string, err error) {
	cfg = cfg.withDefaults()
	if cfg.Management == "" {
		return nil, configError("management", errors.New("not given: policies cannot be seen over AMQP"), "want http://user:password@host:15672")
	}
	s, opts, err := cfg.strategy()
	if err != nil {
		return nil, err
	}
	d, err := s.describe(opts, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.TLS, err = cfg.TLSConfig(); err != nil {
		return nil, err
	}
	m, err := cfg.management()
	if err != nil {
		return nil, err
	}
	return m.Problems(ctx, cfg.Prefix, d.Plan)
}
