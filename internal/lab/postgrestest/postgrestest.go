// Package postgrestest gives tests a real PostgreSQL: the server at POSTGRES_URL, else a private
// cluster of the PostgreSQL that this machine has.
//
// The server starts when the first test asks for it and is shared by the package's tests. Each test
// has a database of its own. A private cluster ends, and its data is removed, when this process
// ends, whichever way.
package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

const urlVariable = "POSTGRES_URL"

// errNone means that this machine has no PostgreSQL. The error says what to do.
var errNone = errors.New("no PostgreSQL available")

var shared = sync.OnceValues(find)

// find returns the address of a server that answers, with credentials of a user who may create
// databases. If there is none and none can be started the error matches [errNone]; a POSTGRES_URL
// that does not answer is another error.
func find() (address string, err error) {
	address, how := os.Getenv(urlVariable), urlVariable
	if address == "" {
		how = "private cluster"
		if address, err = startCluster(); err != nil {
			return "", err
		}
	}
	version, err := version(address)
	if err != nil {
		return "", fmt.Errorf("postgres: %s does not answer: %w", how, err)
	}
	fmt.Printf("PostgreSQL %s, %s\n", version, how)
	return address, nil
}

// version asks the server. A URL that cannot be read is not quoted: it holds a password.
func version(address string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
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

// URL returns the address of an empty database, which is dropped after the test. Without a server
// the test fails if CI=true; otherwise, and with DELAYER_BROKER=none, it is skipped, which the
// summary says.
func URL(t testing.TB) string {
	t.Helper()
	if os.Getenv("DELAYER_BROKER") == rabbit.None {
		rabbittest.Skipf(t, "no PostgreSQL, as DELAYER_BROKER=none says")
	}
	address, err := shared()
	if errors.Is(err, errNone) && os.Getenv("CI") != "true" {
		rabbittest.Skipf(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(address)
	if err != nil {
		t.Fatalf("%s is not a URL (give postgres://user:password@host:5432/database)", urlVariable)
	}
	name := "t_" + strings.ToLower(rand.Text()[:12])
	do(t, address, "CREATE DATABASE "+name)
	t.Cleanup(func() { do(t, address, "DROP DATABASE "+name+" WITH (FORCE)") })
	at.Path = "/" + name
	return at.String()
}

// do runs a statement that cannot be in a transaction.
func do(t testing.TB, address, statement string) {
	t.Helper()
	ctx := context.Background() // also after the test's own has ended
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Error(err)
	}
}

// Pool returns connections to the database at an address, closed after the test.
func Pool(t testing.TB, address string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
