package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// Settings are [delayer.Options] with their defaults, checked as far as possible without a broker.
type Settings struct {
	delayer.Options
	Backend string

	// IgnoreMisrouted leaves misrouted messages to other processes.
	IgnoreMisrouted bool

	// Reserved are the prefixes of names that belong to this Delayer: Publish refuses them as
	// destinations.
	Reserved []string

	management *objects.PolicyAPI // nil where there is none
}

// Resolve gives zero fields of o their defaults and checks them. Errors are ErrConfig and name the
// key.
func Resolve(o delayer.Options, backend string) (Settings, error) {
	def := delayer.DefaultOptions()
	o.Prefix = cmp.Or(o.Prefix, def.Prefix)
	o.QueueType = cmp.Or(o.QueueType, def.QueueType)
	o.Connections = cmp.Or(o.Connections, def.Connections)
	s := Settings{Options: o, Backend: backend, Reserved: []string{o.Prefix}}
	const mostConnections = 64
	switch {
	case o.QueueType != delayer.Quorum && o.QueueType != delayer.Classic:
		return s, ConfigError("queue_type", fmt.Errorf("%q is neither quorum nor classic", o.QueueType), "")
	case o.Connections < 1 || o.Connections > mostConnections:
		return s, ConfigError("connections", fmt.Errorf("%d is not between 1 and %d", o.Connections, mostConnections), "1 is enough for most")
	}
	if err := message.ValidatePrefix(o.Prefix); err != nil {
		return s, ConfigError("prefix", err, "the default is "+def.Prefix)
	}
	if o.TLSFiles != (delayer.TLSFiles{}) {
		if o.TLS != nil {
			return s, ConfigError("tls", errors.New("both files and a TLS configuration are given"), "give one of them")
		}
		err := broker.WantTLS(o.URL)
		if err == nil {
			s.TLS, err = broker.ReadTLS(o.TLSFiles)
		}
		if err != nil {
			return s, err
		}
	}
	if o.Management == "" {
		return s, nil
	}
	vhost, err := broker.Vhost(o.URL)
	if err == nil {
		s.management, err = objects.NewPolicyAPI(o.Management, vhost, transport(s.Options))
	}
	return s, err
}

// ConfigError is the error for a key of the configuration: ErrConfig with the cause and, unless
// empty, a hint.
func ConfigError(key string, cause error, hint string) error {
	return &delayer.Error{Op: "open", Object: key, Kind: delayer.ErrConfig, Cause: cause, Hint: hint}
}

// transport has one connection for each call: calls are seconds apart, and no connection is left
// after Close.
func transport(o delayer.Options) http.RoundTripper {
	return &http.Transport{DisableKeepAlives: true, TLSClientConfig: o.TLS.Clone(), Proxy: http.ProxyFromEnvironment}
}

// Stage is the delivery stage of these settings.
func (s Settings) Stage() delivery.Stage {
	return delivery.NewStage(s.Prefix, s.QueueType == delayer.Quorum)
}

// Whole is the topology that a Delayer declares at Open; own is its backend's part. Markers are
// declared first: a conflict must be found before anything else is declared.
func (s Settings) Whole(own topology.Plan) topology.Plan { return s.Stage().Plan().Add(own) }

// API is the management API. Without an address the error is ErrConfig.
func (s Settings) API() (api *management.Client, vhost string, err error) {
	if s.Management == "" {
		return nil, "", errNoManagement
	}
	if vhost, err = broker.Vhost(s.URL); err != nil {
		return nil, "", err
	}
	const untilContextEnds = 0
	api, err = management.New(s.Management, untilContextEnds, transport(s.Options))
	return api, vhost, err
}

var errNoManagement = ConfigError("management",
	errors.New("not given: policies, bindings and arguments cannot be seen over AMQP"), "want http://user:password@host:15672")

// Problems asks the management API which policies harm p.
func (s Settings) Problems(ctx context.Context, p topology.Plan) ([]objects.Difference, error) {
	if s.management == nil {
		return nil, errNoManagement
	}
	return s.management.Problems(ctx, s.Prefix, p)
}

// BrokerOptions says how to connect. name is shown in the broker's list of connections.
func (s Settings) BrokerOptions(name string) broker.Options {
	return broker.Options{
		URL: s.URL, TLS: s.TLS, Logger: s.Logger, Backend: s.Backend,
		Name: "delayer " + s.Prefix + " " + name, Observer: s.Observer,
	}
}

// watchKey is the context key of WithWatchEvery.
type watchKey struct{}

// WithWatchEvery sets how often a Delayer looks at its topology, for tests. Default: 30 seconds.
func WithWatchEvery(ctx context.Context, every time.Duration) context.Context {
	return context.WithValue(ctx, watchKey{}, every)
}
