package delivery

import (
	"strings"
	"testing"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/internal/lib/message"
)

// matches is AMQP's topic matching over words: * is one word, # any number.
func matches(pattern, words []string) bool {
	switch {
	case len(pattern) == 0:
		return len(words) == 0
	case pattern[0] == "#":
		return matches(pattern[1:], words) || len(words) > 0 && matches(pattern, words[1:])
	case len(words) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == words[0]) && matches(pattern[1:], words[1:])
}

func split(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func TestWildcardsCannotTellOurKeysFromTheUsers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-c.]{1,24}`).Draw(t, "key")
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"*", "*", "#"}), 1, 12).Draw(t, "pattern")
		ours := Key("orders", "", message.Words(key))
		if matches(pattern, split(ours)) && !matches(pattern, split(key)) {
			t.Fatalf("pattern %v matches %q but not the user's %q", pattern, ours, key)
		}
	})
}

func TestAnEmptyKeyIsNotTakenForAFewWords(t *testing.T) {
	ours := split(Key("orders", "", message.Words("")))
	for n := 1; n <= 8; n++ {
		require.False(t, matches(split(strings.TrimSuffix(strings.Repeat("*.", n), ".")), ours), "%d words", n)
	}
}

// FuzzKey: a delivery key fits into AMQP's 255 bytes, has as many words as the user's, is never a
// key that a user may have, and leads to one destination.
func FuzzKey(f *testing.F) {
	f.Add("orders", "", "a.b.c", "x", "")
	f.Add("", "orders", "", "orders", "")
	f.Add("a", "b", strings.Repeat(".", 255), "", "ab")
	f.Add("\xff", "", "\x00.\n", "", "\xff")
	f.Fuzz(func(t *testing.T, exchange, queue, user, exchange2, queue2 string) {
		words := message.Words(user)
		key := Key(exchange, queue, words)
		require.LessOrEqual(t, len(key), 255)
		require.True(t, utf8.ValidString(key))
		require.True(t, strings.HasPrefix(key, message.Reserved))
		require.Len(t, strings.Split(key, "."), words)
		if n := strings.Count(user, ".") + 1; user != "" && n <= message.MostWords {
			require.Equal(t, n, words)
		}
		same := exchange == exchange2 && (exchange != "" || queue == queue2)
		require.Equal(t, same, key == Key(exchange2, queue2, words), "%q %q, %q %q", exchange, queue, exchange2, queue2)
	})
}

// FuzzKeysOfOneDestinationLeadToNoOther: whatever a message's names, keys and headers are, if they
// are accepted, then none of its own keys is one of ours, and the key that we give it is that of
// its destination alone.
func FuzzKeysOfOneDestinationLeadToNoOther(f *testing.F) {
	f.Add("orders", "a.b", "q", "c.c", "x", "orders")
	f.Add("", "queue", "xqueue", "", "", "queue")
	f.Add("", "~d:=", "~d:>0", "~d", "", "qorders")
	f.Add("x", "", "\x00", "a..b", "", "")
	f.Add("qorders", "xorders", "~", "d:=", "xorders", "orders")
	f.Fuzz(func(t *testing.T, exchange, key, cc, bcc, otherExchange, otherQueue string) {
		msg := amqp091.Publishing{Headers: amqp091.Table{"CC": []any{cc}, "BCC": []any{bcc}}}
		if message.Validate(exchange, key, &msg, message.Limits{FrameSize: 131072, MaxPriority: 255}) != nil {
			return
		}
		for _, own := range append(message.Copies(msg.Headers), key) {
			if strings.HasPrefix(own, message.Reserved) {
				t.Errorf("%q is accepted, and has the form of a key of ours", own)
			}
		}
		words := message.Words(key)
		mine := Key(exchange, queueOf(exchange, key), words)
		sealed := message.Seal(msg, message.Envelope{ID: "i", Exchange: exchange}, nil, mine)
		keys := sealed.Headers["BCC"].([]any)
		for _, k := range keys[:len(keys)-1] {
			if strings.HasPrefix(k.(string), message.Reserved) {
				t.Errorf("BCC has %q beside ours", k)
			}
		}
		if keys[len(keys)-1] != mine || !strings.HasPrefix(mine, message.Reserved) || len(mine) > 255 {
			t.Errorf("our key %q is not last in %q, or not ours", mine, keys)
		}
		same := otherExchange == exchange && (exchange != "" || otherQueue == key)
		if other := Key(otherExchange, queueOf(otherExchange, otherQueue), words); !same && other == mine {
			t.Errorf("%q %q and %q %q have one key %q", exchange, key, otherExchange, otherQueue, mine)
		}
	})
}
