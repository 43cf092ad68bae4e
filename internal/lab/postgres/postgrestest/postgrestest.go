// Package postgrestest gives the tests of a package a PostgreSQL, beside the RabbitMQ of
// rabbittest.
//
//	func TestMain(m *testing.M) { rabbittest.Main(postgrestest.Wrap(m), rabbit.Options{}) }
//
//	func TestSomething(t *testing.T) {
//		pool := postgrestest.Pool(t, postgrestest.URL(t))
//		…
//	}
//
// The server starts when the first test asks for it and is shared by the package's tests. Each test
// has a database of its own.
package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/delayer-go/delayer/internal/lab/postgres"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

var shared struct {
	start  sync.Once
	server *postgres.Server
	err    error
}

// A Runner is a *testing.M, or wraps one.
type Runner interface{ Run() int }

// Wrap returns m with the end of the server after the last test.
func Wrap(m Runner) Runner { return wrapped{m} }

type wrapped struct{ Runner }

func (w wrapped) Run() int {
	code := w.Runner.Run()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "postgres: %v\n", err)
		return max(code, 1)
	}
	return code
}

// URL returns the address of an empty database, which is dropped after the test. Without a server
// the test fails if CI=true; otherwise, and with DELAYER_BROKER=none, it is skipped, which the
// summary says.
func URL(t testing.TB) string {
	t.Helper()
	s := server(t)
	name := "t_" + strings.ToLower(rand.Text()[:12])
	do(t, s, "CREATE DATABASE "+name)
	t.Cleanup(func() { do(t, s, "DROP DATABASE "+name+" WITH (FORCE)") })
	address, err := s.Database(name)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func server(t testing.TB) *postgres.Server {
	t.Helper()
	none := os.Getenv("DELAYER_BROKER") == rabbit.None
	if none {
		rabbittest.Skipf(t, "no PostgreSQL, as DELAYER_BROKER=none says")
	}
	shared.start.Do(func() {
		shared.server, shared.err = postgres.Start(context.Background())
		if shared.err == nil {
			fmt.Println(shared.server)
		}
	})
	if errors.Is(shared.err, postgres.ErrNone) && os.Getenv("CI") != "true" {
		rabbittest.Skipf(t, "%v", shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// do runs a statement that cannot be in a transaction.
func do(t testing.TB, s *postgres.Server, statement string) {
	t.Helper()
	ctx := context.Background() // also after the test's own has ended
	conn, err := pgx.Connect(ctx, s.URL())
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
