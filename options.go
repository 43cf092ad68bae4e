package delayer

import (
	"crypto/tls"
	"log/slog"
)

// Options are what every backend takes. A zero field means its default.
type Options struct {
	// URL is the broker's address: amqp:// or amqps://, with user name and password. Required.
	//
	// Several addresses, of the nodes of one cluster, are separated by commas. They are tried in
	// turn; after a lost connection, those that follow the lost one are tried first. All must have
	// the same virtual host and user name.
	URL string `yaml:"url"`

	// Management is the address of the broker's management API, as http://user:password@host:15672
	// or https://. The user needs the tag monitoring. If it is given, Open refuses policies that
	// would make messages early or lose them. Policies that are set later are not noticed. Without
	// it none are: AMQP does not show them. Default: none.
	Management string `yaml:"management"`

	// TLSFiles are used with amqps:// addresses.
	TLSFiles TLSFiles `yaml:"tls"`

	// Prefix begins the name of every exchange and queue of the Delayer. It has 1 to 128 bytes of
	// UTF-8 without control characters, and does not begin with "amq.". Default: delayer.
	Prefix string `yaml:"prefix"`

	// QueueType is Quorum (the default) or Classic.
	QueueType QueueType `yaml:"queue_type"`

	// Passive makes Open declare nothing: an administrator has imported the exchanges and queues
	// (`delayer topology print --output definitions`), and Open only checks that they exist.
	// Destinations are bound in any case. Routing keys may then have up to eight words. Default:
	// false.
	Passive bool `yaml:"passive"`

	// Connections is the number of connections that publish, 1 to 64. Default: 1, which on a broker
	// with few cores is as fast as more. One further connection declares, binds and consumes.
	Connections int `yaml:"connections"`

	// TLS is used with amqps:// addresses, instead of TLSFiles. Without either, the system's
	// authorities are trusted, and the URL's parameters apply (cacertfile, certfile, keyfile,
	// server_name_indication).
	TLS *tls.Config `yaml:"-"`

	// Logger receives what happens to connections, policies and destinations. Default:
	// slog.Default().
	Logger *slog.Logger `yaml:"-"`

	// Observer is told what the Delayer does, for metrics. Default: nobody is.
	Observer Observer `yaml:"-"`
}

// DefaultOptions returns the defaults of Options.
func DefaultOptions() Options {
	return Options{Prefix: "delayer", QueueType: Quorum, Connections: 1}
}

// UnroutableQueue returns the name of the queue that keeps messages whose destination did not exist
// when they were due.
func (o Options) UnroutableQueue() string {
	if o.Prefix == "" {
		o.Prefix = DefaultOptions().Prefix
	}
	return o.Prefix + ".unroutable"
}

// QueueType is the type of the queues in which messages wait.
type QueueType string

// The queue types. Both are durable.
const (
	// Quorum queues are replicated and dead-letter at least once. Confirmed messages survive a
	// crash of the broker.
	Quorum QueueType = "quorum"
	// Classic queues cost the broker less and keep one copy. A crash loses messages that are moving
	// from one queue to the next, and those that are not on disk yet.
	Classic QueueType = "classic"
)

// TLSFiles name the files for amqps:// addresses. The broker's certificate and host name are always
// verified. Open reads the files once.
type TLSFiles struct {
	// CAFile holds the certificates (PEM) of the authorities that are trusted to have issued the
	// broker's. Default: the system's authorities.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile hold the client's certificate and its key (PEM), for a broker that asks
	// for a certificate. Default: none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name that the broker's certificate must have. Default: the host of the
	// address.
	ServerName string `yaml:"server_name"`
}
