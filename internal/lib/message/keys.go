package message

import (
	"strings"
)

// Words is the number of words that our routing keys must have beside a user's routing key.
//
// The broker matches all keys of a message at every exchange, so our keys also at the user's
// exchange. In a topic exchange a pattern with a literal word never matches a key of ours, because
// nobody else uses our words. A pattern of wildcards alone depends only on the number of words. So
// our keys have as many words as the user's key: such a pattern then matches our keys only if it
// matches the user's.
//
// A pattern has at most 255 bytes, hence at most 128 wildcards. Larger numbers of words cannot be
// distinguished. An empty key has no words, which ours cannot imitate: they get a number of words
// for which nobody writes a pattern. (A pattern such as "*.#" still distinguishes them.)
func Words(key string) int {
	if key == "" {
		return 16
	}
	return min(strings.Count(key, ".")+1, MostWords)
}

// MostWords is the largest result of Words.
const MostWords = 129

// Pad extends a key of one word to so many words, with empty ones.
func Pad(key string, words int) string {
	return key + strings.Repeat(".", words-1)
}

// Unpad returns a key of ours without the words that Pad has added.
func Unpad(key string) string {
	if strings.HasPrefix(key, Reserved) {
		return strings.TrimRight(key, ".")
	}
	return key
}

// A Destination is what a message is published to.
type Destination struct {
	Exchange string
	Queue    string // with the default exchange
}

// To returns the destination of a message.
func To(exchange, key string) Destination {
	if exchange == "" {
		return Destination{Queue: key}
	}
	return Destination{Exchange: exchange}
}
