package delivery

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/delayer-go/delayer/internal/message"
)

// Words is the number of words that our routing keys must have beside a user's routing key.
//
// The broker matches all keys of a message at every exchange, ours at the user's too. In a topic
// exchange a pattern with a literal word never matches a key of ours, whose words no one else uses; a
// pattern of wildcards alone asks only how many words there are. So ours have as many as the user's: then such a
// pattern matches ours only where it matches the user's anyway.
//
// A pattern has at most 255 bytes, hence at most 128 wildcards; beyond that, numbers of words cannot be
// told apart. An empty key has no words at all, which ours cannot imitate: they get a number
// that no one writes a pattern for. (A pattern such as "*.#" still tells the two apart.)
func Words(key string) int {
	const unlikely = 16
	if key == "" {
		return unlikely
	}
	return min(strings.Count(key, ".")+1, MostWords)
}

// MostWords is the largest result of Words.
const MostWords = 129

// Pad brings a key of one word to so many, with empty ones.
func Pad(key string, words int) string {
	return key + strings.Repeat(".", words-1)
}

// Key returns the delivery key of a destination: a hash, because a name may have dots and up to 255 bytes.
// The first 128 bits of SHA-256 tell any two destinations apart.
func Key(exchange, queue string, words int) string {
	name := "q" + queue
	if exchange != "" {
		name = "x" + exchange
	}
	sum := sha256.Sum256([]byte(name))
	return Pad(message.Reserved+":="+base64.RawURLEncoding.EncodeToString(sum[:16]), words)
}
