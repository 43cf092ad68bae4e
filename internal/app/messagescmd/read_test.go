package messagescmd

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// TestPage: a body that is no text is a hex dump, and nothing steers the terminal.
func TestPage(t *testing.T) {
	all := showing{Queue: "q", Total: 3, Selected: 1}
	all.Message.Message = kept.Message{Key: "stray", Size: 3, Why: "no x-delayer header\x1b", To: "unknown"}
	all.Message.Content = undelivered.Content{
		Properties: messagejson.Properties{MessageID: "m", Priority: 9}, Body: []byte{0, 255, 'x'},
		Headers: messagejson.Headers{"not a\nnumber": math.NaN(), "list": []any{int64(1), "<two>\x1b"}, "none": nil},
	}
	require.Equal(t, `Queue              q (1 of 3 messages)
Why                no x-delayer header\x1b
Retry sends it to  unknown

Properties
  message_id  "m"
  priority    9

Headers
  list           [1,"<two>\u001b"]
  none           null
  not a\nnumber  NaN

Body, 3 B
00000000  00 ff 78                                          |..x|
`, page(all))
	all.Selected, all.Message.Content = 2, undelivered.Content{Body: []byte("one\n\x1btwo\n")}
	require.Contains(t, page(all), "the oldest of 2 messages; --id selects another")
	require.Contains(t, page(all), "\nBody, 3 B\n  one\n  \\x1btwo\n")
}
