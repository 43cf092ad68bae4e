// Package record keeps the state of a migration in the broker: which step an exchange is in, and
// how it was before. It also is the lock: one tool at a time works on an exchange.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Queue is the name of the queue that holds the record of an exchange.
func Queue(prefix, exchange string) string { return stem(prefix) + hash(exchange) }

// Bridge is the name of the queue that a bridge consumes: all that is published to the exchange.
func Bridge(prefix, exchange string) string { return stem(prefix) + "bridge." + hash(exchange) }

// Behind is the name of the exchange that has the former bindings: during a switch, so that one
// binding leads to all of them at once, and as long as a bridge runs.
func Behind(prefix, exchange string) string { return stem(prefix) + "behind." + hash(exchange) }

// Hold is the name of an exchange that routes nothing. While the exchange is away, exchanges bound
// to it are bound there, so that none of them deletes itself.
func Hold(prefix, exchange string) string { return stem(prefix) + "hold." + hash(exchange) }

// Lock is the name of a queue that belongs to the connection of the tool that works on the exchange.
func Lock(prefix, exchange string) string { return Queue(prefix, exchange) + ".lock" }

func stem(prefix string) string { return prefix + ".migration." }

// hash stands for a name that may be as long as a name of ours may be at most. 64 bits tell apart
// more exchanges than a broker has.
func hash(exchange string) string {
	sum := sha256.Sum256([]byte(exchange))
	return hex.EncodeToString(sum[:hashBytes])
}

const hashBytes = 8

// isQueue reports whether a name is one of Queue.
func isQueue(prefix, name string) bool {
	text, ok := strings.CutPrefix(name, stem(prefix))
	sum, err := hex.DecodeString(text)
	return ok && err == nil && len(sum) == hashBytes
}
