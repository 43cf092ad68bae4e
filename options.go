package delayer

import (
	"crypto/tls"
	"log/slog"
)

// Options are what every backend takes. A field that is zero takes its default.
type Options struct {
	// URL is the broker's address: amqp:// or amqps://, with user name and password. Required.
	// Several addresses, of the nodes of one cluster, are separated by commas. They are tried in
	// turn; after a lost connection those that follow the lost one come first. Virtual host and
	// user name must be the same in all.
	URL string `yaml:"url"`

	// Management is the address of the broker's management API,
	// http://user:password@host:15672 or https://, of a user with the tag monitoring. Where it is
	// given, Open refuses policies that would make messages early or lose them, and looks for such
	// policies every few seconds afterwards. Over AMQP only some can be found, and those late.
	// Default: none.
	Management string `yaml:"management"`

	// TLSFiles are used with amqps:// addresses.
	TLSFiles TLSFiles `yaml:"tls"`

	// Prefix begins the name of every exchange and queue of ours: 1 to 128 bytes of UTF-8 without
	// control characters, not "amq.". Default: delayer.
	Prefix string `yaml:"prefix"`

	// QueueType is Quorum (the default) or Classic.
	QueueType QueueType `yaml:"queue_type"`

	// Declare says whether Open declares the exchanges and queues. Default: On. With Off an
	// administrator has imported them (`delayer topology print --format definitions`), and Open only
	// looks whether they are there; destinations are still bound. Routing keys may then have up to
	// eight words.
	Declare Toggle `yaml:"declare"`

	// Resend says whether this Delayer sends misrouted messages on by itself: those that ended
	// before their destination although it exists, as a restart of RabbitMQ 3.10 to 3.12 may cause.
	// Default: On. With Off they are kept in the queue for unroutable messages. It should be the
	// same in all Delayers of a prefix, because one of them at a time does it for all.
	Resend Toggle `yaml:"resend"`

	// Connections is how many connections publish, 1 to 64. Default: 1, which on a broker with few
	// cores is as fast as more. One further connection declares, binds and consumes.
	Connections int `yaml:"connections"`

	// TLS is used with amqps:// addresses, instead of TLSFiles. Where both are absent, the system's
	// authorities are trusted, and the URL's parameters apply (cacertfile, certfile, keyfile,
	// server_name_indication).
	TLS *tls.Config `yaml:"-"`

	// Logger receives what happens to connections, policies and destinations. Default:
	// slog.Default().
	Logger *slog.Logger `yaml:"-"`
}

// DefaultOptions returns what the fields that are zero in Options stand for.
func DefaultOptions() Options {
	return Options{Prefix: "delayer", QueueType: Quorum, Declare: On, Resend: On, Connections: 1}
}

// UnroutableQueue is the name of the queue that keeps messages whose destination did not exist when
// they were due.
func (o Options) UnroutableQueue() string {
	if o.Prefix == "" {
		o.Prefix = DefaultOptions().Prefix
	}
	return o.Prefix + ".unroutable"
}

// QueueType is how waiting queues keep their messages.
type QueueType string

// The queue types. Both are durable.
const (
	// Quorum queues are replicated and dead-letter at least once: confirmed messages survive a crash
	// of the broker.
	Quorum QueueType = "quorum"
	// Classic queues are faster and have one copy. A crash loses the messages that are moving from
	// one queue to the next.
	Classic QueueType = "classic"
)

// TLSFiles name the files for amqps:// addresses. The broker's certificate and host name are always
// verified.
type TLSFiles struct {
	// CAFile holds the certificates (PEM) of the authorities that may have issued the broker's.
	// Default: the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are a certificate of our own and its key (PEM), for a broker that asks
	// for one. Default: none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name that the broker's certificate must have. Default: the host of the
	// address.
	ServerName string `yaml:"server_name"`
}
