package message

import (
	"strings"
)

// Words is the number of words that our routing keys must have beside a user's routing key.
//
// The broker matches our keys also at the user's exchange. In a topic exchange a pattern with a
// literal word never matches one, because nobody else uses our words. What a pattern of wildcards
// alone matches depends on the number of words. So our keys have as many as the user's key.
//
// A pattern has at most 255 bytes, hence at most 128 wildcards: larger numbers of words cannot be
// told apart. An empty key has no words: ours get a number for which nobody writes a pattern. (One
// such as "*.#" still tells them apart.)
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
