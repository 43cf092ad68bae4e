// Package postgres finds or starts a real PostgreSQL for tests: the server at POSTGRES_URL, else a
// private cluster of the PostgreSQL that this machine has.
//
// A private cluster listens on a free port of the loopback interface and keeps its data in a
// temporary folder. It ends, and its folder is removed, when Close is called or this process ends,
// whichever way. PostgreSQL refuses to run as root: a test that does runs it as the user postgres.
package postgres
