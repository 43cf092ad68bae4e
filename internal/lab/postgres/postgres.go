// Package postgres finds or starts a real PostgreSQL for tests: the server at POSTGRES_URL, else a
// private cluster of the PostgreSQL that this machine has.
//
// A private cluster listens on a free port of the loopback interface and keeps its data in a
// temporary folder. It ends, and its folder is removed, when Close is called or this process ends,
// whichever way. PostgreSQL refuses to run as root: a test that does runs it as the user postgres.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

const urlVariable = "POSTGRES_URL"

const startTimeout = time.Minute

// ErrNone means that this machine has no PostgreSQL. The error says what to do.
var ErrNone = errors.New("no PostgreSQL available")

// A Server is a PostgreSQL that answers.
type Server struct {
	url     string
	how     string
	version string
	cluster *cluster // nil: the server is not ours
}

// Start returns a server that answers. If there is none and none can be started the error matches
// [ErrNone]; a POSTGRES_URL that does not answer is another error.
func Start(ctx context.Context) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Server{url: os.Getenv(urlVariable), how: urlVariable}
	if s.url == "" {
		c, err := startCluster(ctx)
		if err != nil {
			return nil, err
		}
		s.cluster, s.url, s.how = c, c.url(), "private cluster"
	}
	var err error
	if s.version, err = version(ctx, s.url); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %s does not answer: %w", s.how, err), s.Close())
	}
	return s, nil
}

// version asks the server. A URL that cannot be read is not quoted: it holds a password.
func version(ctx context.Context, address string) (string, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return "", errors.New("not a PostgreSQL URL; it looks like postgres://user:password@host:5432/database")
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	said := conn.PgConn().ParameterStatus("server_version")
	return said, conn.Close(ctx)
}

// URL is the server's address, with credentials of a user who may create databases.
func (s *Server) URL() string { return s.url }

// Database is the address of another database of the server.
func (s *Server) Database(name string) (string, error) {
	at, err := url.Parse(s.url)
	if err != nil {
		return "", fmt.Errorf("postgres: %s is not a URL (give postgres://user:password@host:5432/database)", s.how)
	}
	at.Path = "/" + name
	return at.String(), nil
}

// String says what the server is: "PostgreSQL 15.9, private cluster".
func (s *Server) String() string { return fmt.Sprintf("PostgreSQL %s, %s", s.version, s.how) }

// Close ends a server of ours and removes what it left. It may be called more than once.
func (s *Server) Close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.close()
}
