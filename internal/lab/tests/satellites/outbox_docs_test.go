package satellites_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/docs"
)

// TestDocs_SQL: what docs/outbox.md says to type for a message that cannot be published does what
// it says.
func TestDocs_SQL(t *testing.T) {
	pool, _ := database(t)
	enqueue(t, pool, "nowhere", time.Hour, "m")
	var id int
	require.NoError(t, pool.QueryRow(t.Context(), "UPDATE delayer_outbox SET next_try = now() + interval '1 hour' RETURNING id").Scan(&id))

	var statements []string
	for _, b := range docs.Blocks(docs.Pages(t, "../../../..")["docs/outbox.md"]) {
		if b.Lang == "sql" {
			statements = regexp.MustCompile(`(?s)[A-Z]+ .*?;`).FindAllString(b.Text, -1)
		}
	}
	require.Len(t, statements, 4)
	for i, after := range []string{"next_try <= now()", "next_try = 'infinity'", "message->>'routing_key' = 'orders'", "true"} {
		statement := regexp.MustCompile(`id = 17\b`).ReplaceAllString(statements[i], "id = "+strconv.Itoa(id))
		require.NotEqual(t, statements[i], statement)
		done, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
		require.EqualValues(t, 1, done.RowsAffected(), statement)
		var left, changed int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE "+after+") FROM delayer_outbox").Scan(&left, &changed))
		require.Equal(t, left, changed, statement)
		require.Equal(t, i == 3, left == 0, "only the last one deletes")
	}
}
