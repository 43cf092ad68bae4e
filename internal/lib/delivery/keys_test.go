package delivery

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/message"
)

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
