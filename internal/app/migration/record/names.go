// Package record keeps the state of a migration in the broker: which step an exchange is in, and
// how it was before. It also is the lock: one tool at a time works on an exchange.
package record

import (
	"crypto/sha256"
	"encoding/hex"
)

// Queue is the name of the queue that holds the record of an exchange.
func Queue(prefix, exchange string) string { return Names(prefix) + hash(exchange) }

// Behind is the name of the exchange that has the former bindings during a switch in place, so that
// one binding leads to all of them at once. To delayer serve an exchange with a name of the user's
// has them.
func Behind(prefix, exchange string) string { return Names(prefix) + "behind." + hash(exchange) }

// Hold is the name of an exchange that routes nothing. While the exchange is away, exchanges bound
// to it are bound there, so that none of them deletes itself.
func Hold(prefix, exchange string) string { return Names(prefix) + "hold." + hash(exchange) }

// Lock is the name of a queue that belongs to the connection of the tool that works on the
// exchange.
func Lock(prefix, exchange string) string { return Queue(prefix, exchange) + ".lock" }

// Names is how the names of all objects of migrations begin.
func Names(prefix string) string { return prefix + ".migration." }

// hash stands for a name that may be as long as a name of ours may be at most. 64 bits tell apart
// more exchanges than a broker has.
func hash(exchange string) string {
	sum := sha256.Sum256([]byte(exchange))
	return hex.EncodeToString(sum[:8])
}
