package delivery

import (
	"strings"
	"testing"

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

func TestKeysFitAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, d := range [][2]string{{"a", ""}, {"", "a"}, {"a.b", ""}, {"b", ""}, {"", "b"}, {strings.Repeat("x", 255), ""}} {
		for _, user := range []string{"", "k", "k.k", strings.Repeat(".", 255)} {
			key := Key(d[0], d[1], message.Words(user))
			require.LessOrEqual(t, len(key), 255)
			require.Len(t, split(key), message.Words(user))
			require.NotContains(t, seen, key)
			seen[key] = d[0]
		}
	}
}
