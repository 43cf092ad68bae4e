package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"unicode"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// classify turns an error of amqp091-go or of the network into its kind and the remedy.
func classify(err error) (hint string, kind error) {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case errors.As(err, &authority):
		return "the broker's certificate is signed by another authority: give that authority's certificate as tls.ca_file", delayer.ErrUnavailable
	case errors.As(err, &host):
		return "use a host name of the broker's certificate in the URL, or give one as tls.server_name", delayer.ErrUnavailable
	case errors.As(err, &invalid):
		return "the broker needs a valid certificate", delayer.ErrUnavailable
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error", strings.Contains(err.Error(), "remote error: tls: "):
		// The broker's alert about our certificate; amqp091-go keeps only its text.
		return "the broker wants a client certificate of an authority that it trusts: give tls.cert_file and tls.key_file", delayer.ErrAccess
	case errors.Is(err, errLogin):
		return "check user name and password, and give it more time: RabbitMQ takes 3 s to refuse a password", delayer.ErrUnavailable
	case errors.Is(err, errChannels):
		return "set channel_max in rabbitmq.conf to that number or more, and leave channel_max out of url", delayer.ErrUnavailable
	case errors.Is(err, errHeartbeat):
		return "set heartbeat in rabbitmq.conf to 10 or more, and leave heartbeat out of url", delayer.ErrUnavailable
	}
	var amqpErr *amqp091.Error
	if !errors.As(err, &amqpErr) {
		return "is RabbitMQ running there, and does the port match the scheme?", delayer.ErrUnavailable
	}
	if errors.Is(amqpErr, amqp091.ErrSASL) {
		return "the broker offers none of the mechanisms of auth_mechanism: for external enable the plugin rabbitmq_auth_mechanism_ssl, and auth_mechanisms must list EXTERNAL", delayer.ErrAccess
	}
	if errors.Is(amqpErr, amqp091.ErrVhost) {
		return "does the virtual host exist, and may the user enter it?", delayer.ErrAccess
	}
	if isLimited(err) {
		return "raise that limit, or delete or close what is not needed: rabbitmqctl list_vhost_limits, list_user_limits", delayer.ErrUnavailable
	}
	switch amqpErr.Code {
	case amqp091.AccessRefused:
		if !amqpErr.Server || amqpErr == amqp091.ErrCredentials {
			return "check user name and password", delayer.ErrAccess
		}
		return "grant the user this permission: rabbitmqctl set_permissions, with the patterns in docs/operating.md", delayer.ErrAccess
	case amqp091.NotAllowed:
		return "does the virtual host exist, and may the user enter it?", delayer.ErrAccess
	case amqp091.ResourceLocked:
		return "the queue is exclusive to another connection: deliver to it through an exchange", delayer.ErrAccess
	case amqp091.NotFound:
		if Absent(err) {
			return "its node is down, or has just started: try again", delayer.ErrUnavailable
		}
		return "declare it first", delayer.ErrUnroutable
	case amqp091.PreconditionFailed:
		return "delete it, or use another prefix", delayer.ErrConflict
	case amqp091.CommandInvalid:
		return "the broker does not know this exchange type: is the plugin enabled?", delayer.ErrNotFound
	case amqp091.InternalError:
		if strings.Contains(amqpErr.Reason, flagDisabled) {
			return "once all nodes have this version: rabbitmqctl enable_feature_flag all", delayer.ErrNotFound
		}
	}
	return "", delayer.ErrUnavailable
}

// flagDisabled is in the broker's 541 for a type of queues whose feature flag is disabled. The words
// that say so come later, and the broker cuts its texts off at 255 bytes.
const flagDisabled = "' of type 'rabbit_"

// limited matches the broker's answers to what is one too many: queues or connections of a vhost, a
// user or the cluster. Their codes, 406 and 530, mean something else otherwise.
var limited = regexp.MustCompile(`: (queue|exchange) limit |connection limit \(?\d+\)? is |the maximum allowed `)

// isLimited reports whether err is such an answer.
func isLimited(err error) bool {
	var amqpErr *amqp091.Error
	return errors.As(err, &amqpErr) && limited.MatchString(amqpErr.Reason)
}

// refusal returns the kind and the hint of an error with which the broker closes a channel because
// of one message. That message is not stored. kind is nil for any other error.
func refusal(err error) (hint string, kind error) {
	var amqpErr *amqp091.Error
	if !errors.As(err, &amqpErr) || !amqpErr.Server {
		return "", nil
	}
	switch amqpErr.Code {
	case amqp091.AccessRefused:
		return "grant the user permission to write to the exchange, or choose one that is not internal", delayer.ErrAccess
	case amqp091.NotFound:
		return "declare it first", delayer.ErrUnroutable
	case amqp091.PreconditionFailed:
		return "", delayer.ErrInvalid
	}
	return "", nil
}

// permanent reports whether the broker was reached and refused.
func permanent(err error) bool {
	_, kind := classify(err)
	return errors.Is(kind, delayer.ErrAccess)
}

// dialError is the error of Open and Publish for a broker that cannot be reached.
func dialError(op, backend, endpoint string, err error) *delayer.Error {
	hint, kind := classify(err)
	var amqpErr *amqp091.Error
	if hint == "" && errors.As(err, &amqpErr) && !amqpErr.Server && amqpErr.Code == amqp091.FrameError { // what is read is no AMQP, or ends
		hint = "is RabbitMQ running there, and is this its AMQP port (5672, or 5671 with amqps://), not the management API's (15672)?"
	}
	return &delayer.Error{Op: op, Backend: backend, Object: endpoint, Kind: kind, Cause: plain(err), Hint: hint}
}

// plain shortens amqp091-go's "Exception (403) Reason: …", and keeps the error in the chain. The
// broker quotes names as they are: it removes control characters, which terminals obey.
func plain(err error) error {
	var known *reason
	var amqpErr *amqp091.Error
	if !errors.As(err, &known) && errors.As(err, &amqpErr) && amqpErr.Reason != "" {
		text := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return unicode.ReplacementChar
			}
			return r
		}, amqpErr.Reason)
		return &reason{fmt.Sprintf("%d %s", amqpErr.Code, text), amqpErr}
	}
	return err
}

type reason struct {
	text string
	err  error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.err }

// Code returns the reply code of the broker's error in the chain of err, or 0. It is NotFound only
// for what does not exist; see [Absent].
func Code(err error) int {
	var amqpErr *amqp091.Error
	switch {
	case !errors.As(err, &amqpErr):
		return 0
	case Absent(err):
		return amqp091.InternalError
	}
	return amqpErr.Code
}

// Absent reports whether the broker has answered 404 for a queue that exists: its node is down.
func Absent(err error) bool {
	var amqpErr *amqp091.Error
	if !errors.As(err, &amqpErr) || amqpErr.Code != amqp091.NotFound {
		return false
	}
	why, given := strings.CutPrefix(amqpErr.Reason, "NOT_FOUND - ")
	return given && !strings.HasPrefix(why, "no ") // "no queue 'x' in vhost '/'"
}
